"""The public names of `jsparse`, by kind: a single list for `import`, `dir`, `help` and the stub of type checkers.

`jsparse/__init__.py` imports a name when somebody first asks for it. `python tools/stubs.py` writes `__init__.pyi`, in
which type checkers and editors find the same imports.
"""

from __future__ import annotations

import textwrap

__all__ = ["ELSEWHERE", "KINDS", "PLACES", "SUBPACKAGES", "documentation"]

KINDS: dict[str, dict[str, str]] = {
    "Tensors and patterns": {
        "formats": "Format Pattern",
        "tensor.sparse_tensor": "SparseTensor",
    },
    "Products, sums and statements": {
        "ops.attention.dot_product_attention": "dot_product_attention",
        "ops.building.products": "kron outer",
        "ops.dot": "dot tensordot vecdot",
        "ops.einsum": "einsum",
        "ops.elementwise.operators": "matmul",
        "ops.evaluate": "evaluate",
    },
    "Making tensors": {
        "convert.creation": "asarray",
        "convert.choice": "choose_format",
        "convert.decompose": "block_fill decompose row_length",
        "ops.building.diagonals": "diag diagonal trace tril triu",
        "ops.building.filled": "eye full full_like ones ones_like zeros zeros_like",
        "ops.building.products": "block_diag",
        "ops.building.random": "random",
    },
    "Files": {
        "io.files": "load save",
    },
    "Shapes, indices and order": {
        "ops.indexing.getitem": "take take_along_axis",
        "ops.shaping.axes": "expand_dims matrix_transpose moveaxis permute_dims squeeze swapaxes transpose unstack",
        "ops.shaping.differences": "cumulative_sum diff",
        "ops.shaping.joining": "concat concatenate hstack pad stack vstack",
        "ops.shaping.ordering": "argsort nonzero sort top_k unique_counts unique_values",
        "ops.shaping.repeating": "broadcast_to repeat tile",
        "ops.shaping.reshaping": "ravel reshape",
        "ops.shaping.rolling": "flip roll",
    },
    "Reductions": {
        "ops.reductions.arg": "argmax argmin",
        "ops.reductions.moments": "std var",
        "ops.reductions.nan": "nanmax nanmean nanmin nanprod nansum",
        "ops.reductions.reductions": "all any count_nonzero max mean min prod sum",
        "ops.reductions.softmax": "log_softmax logsumexp softmax",
        "ops.shaping.norm": "norm",
    },
    "Comparisons": {
        "ops.elementwise.comparisons": "allclose array_equal equal greater greater_equal less less_equal not_equal",
    },
    "Meshes": {
        "sharded.build": "shard",
        "sharded.tensor": "ShardedTensor",
    },
    "Dtypes": {
        "ops.elementwise.dtypes": "astype can_cast result_type",
    },
    "Elementwise functions": {
        "ops.elementwise.binary": "clip maximum minimum pow power where",
        "ops.elementwise.bounded": "add multiply subtract",
        "ops.elementwise.functions": (
            "abs absolute acos acosh arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 "
            "atanh bitwise_left_shift bitwise_right_shift cbrt ceil celu conj conjugate copysign cos cosh deg2rad "
            "elu erf erfc exp exp2 expm1 floor floor_divide fmod gelu hypot imag isfinite isinf isnan leaky_relu "
            "left_shift log log1p log2 log10 log_sigmoid logaddexp logaddexp2 logical_and logical_or logical_xor "
            "mod nan_to_num negative positive rad2deg real reciprocal relu relu6 remainder right_shift rint round "
            "rsqrt selu sigmoid sign signbit silu sin sinh soft_sign softplus sqrt square tan tanh trunc"
        ),
        "ops.elementwise.operators": "bitwise_and bitwise_invert bitwise_or bitwise_xor divide logical_not",
    },
    "Entries and values: pruning, growing, moving": {
        "ops.surgery.prune": "drop_zeros prune",
        "ops.surgery.regrow": "regrow",
        "ops.surgery.restrict": "restrict",
        "ops.trees": "values with_values",
    },
    "Attention and fusion": {
        "ops.attention.attention_fn": "attention_fn",
        "ops.attention.sparse_attention": "sparse_attention",
        "ops.fuse": "fuse",
    },
    "Transformations of functions": {
        "adapters.accelerate_jax_sparse.register": "accelerate_jax_sparse",
        "differentiation.gradients": "grad value_and_grad",
        "ops.export": "export",
        "sparsification.sparsify": "sparsify",
    },
    "Looking and settings": {
        "compiler.schedule": "Schedule",
        "ops.autotune": "autotune",
        "ops.explain": "explain",
        "ops.profile": "profile",
        "primitives.einsum": "CHECKPOINT_NAME",
        "settings": "clear_cache config",
    },
    "Errors and warnings": {
        "errors": (
            "CacheError CacheWarning ConfigError DeletedArrayError DTypeError FileFormatError FormatError "
            "IntegerRangeError JsparseError LeafError LinearityError NotYetSupportedError PatternError "
            "ScheduleError SemiringError ShapeError ShardingError SubscriptError"
        ),
    },
}
"""Kind → module → the names that the module defines, separated by spaces."""

SUBPACKAGES = {
    "pattern": "patterns of attention: windows, causal masks, butterflies and their unions",
    "graph": "graphs from edges and points, prepared, batched and sampled",
    "nn": "layers as pure functions, and graph layers as values",
    "nnx": "layers as Flax NNX modules",
    "linen": "layers as Flax Linen modules",
    "optax": "optimizers that see the values of tensors",
    "equinox": "tensors in Equinox modules",
    "lineax": "tensors as Lineax operators",
    "io": "tensors in files",
}
"""The public subpackages. Some need an optional package, and say so where it is missing."""

PLACES = {
    name: f"jsparse.{place}" for places in KINDS.values() for place, names in places.items() for name in names.split()
}
"""Name → the module that defines it."""


_OF_FORMATS = {
    f"{format}_{kind}": f'jsparse.asarray(x, format="{format}")'
    for format in ("coo", "csc", "csr")
    for kind in ("array", "matrix")
}
ELSEWHERE = {"array": "jsparse.asarray(x)", "BCOO": "jsparse.asarray(x)", "COO": "jsparse.asarray(x)"} | _OF_FORMATS
"""Name in another library → what to write instead."""


def documentation() -> str:
    """Return a list of the public names by kind, and of the subpackages, for `help(jsparse)`."""
    lines = []
    for kind, places in KINDS.items():
        names = ", ".join(" ".join(places.values()).split())
        lines += ["", f"{kind}:", *textwrap.wrap(names, 112, initial_indent="    ", subsequent_indent="    ")]
    lines += ["", "Subpackages:", *(f"    {name:8} {about}" for name, about in SUBPACKAGES.items())]
    return "\n".join(lines)
