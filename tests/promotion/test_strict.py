"""Under `jax_numpy_dtype_promotion="strict"` the package promotes nothing: programs are traced in each dtype and mode.

Sums in all dtypes, with their gradients, run under it in `narrow_floats/test_sums.py`, which is marked.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from narrow_floats.cases import CASES

import jsparse
from jsparse import nn

pytestmark = pytest.mark.strict_promotion
DENSE = np.arange(30).reshape(5, 6) % 4
SQUARE = np.arange(36).reshape(6, 6) % 5
MODES = {"float32": False, "float32, x64": True, "bfloat16, x64": True, "float64, x64": True}
KEY = jax.random.key(0)
IDS = np.array([0, 0, 1, 1, 2, 2], np.int32)

ENTRIES = {  # of a matrix A (5, 6), another one B on other entries, and the dtype
    **{name: lambda A, B, d, name=name: getattr(jsparse, name)(A) for name in (
        "abs", "arcsinh", "cbrt", "celu", "elu", "expm1", "gelu", "leaky_relu", "log1p", "relu6", "round", "selu",
        "sign", "silu", "sin", "soft_sign", "sqrt", "square", "tanh", "trunc", "norm", "trace", "tril", "triu", "ravel",
        "softmax", "sort", "reciprocal", "isfinite", "exp", "log", "rsqrt", "softplus", "sigmoid", "cos", "arctanh",
    )},
    **{f"{name} {axis}": lambda A, B, d, name=name, axis=axis: getattr(A, name)(axis)
       for name in ("sum", "mean", "max", "min", "prod", "any", "all", "argmax", "argmin") for axis in (0, None)},
    **{f"stored {name}": lambda A, B, d, name=name: getattr(A, name)(1, stored=True)
       for name in ("mean", "max", "min", "prod", "all")},
    "operators": lambda A, B, d: [A + B, A - B, A * B, -A, 2 * A, 2.5 * A, A / 2, 1 / A, A**2, A**0.5, A**A, A + 0],
    "comparisons": lambda A, B, d: [A > 1, A > B, jsparse.not_equal(A, B)],
    "extremes": lambda A, B, d: [jsparse.maximum(A, B), jsparse.minimum(A, B)],
    "where": lambda A, B, d: [jsparse.where(A > 0, A, 0), jsparse.where(A > 1, A, 2 * A)],
    "map": lambda A, B, d: A.map(lambda v: 2 * v + 1),
    "dense operands": lambda A, B, d: [A * ones(d, 5, 6), A / ones(d, 6), A * ones(d, 5, 1), A + ones(d, 5, 6)],
    "products": lambda A, B, d: [A @ ones(d, 6), A @ ones(d, 6, 3), ones(d, 3, 5) @ A, A.T @ ones(d, 5, 3)],
    "sparse product": lambda A, B, d: jsparse.einsum("ij,kj->ik", A, B, nse=25),
    "dense product": lambda A, B, d: jsparse.einsum("ij,kj->ik", A, B, out_format="dense"),
    "sampled": lambda A, B, d: jsparse.einsum("ik,jk->ij", ones(d, 5, 2), ones(d, 6, 2), out_format=A),
    "three factors": lambda A, B, d: jsparse.einsum("ij,jc,cf->if", A, ones(d, 6, 3), ones(d, 3, 2)),
    **{by: lambda A, B, d, by=by: jsparse.einsum("ij,j->i", A, ones(d, 6), semiring=by)
       for by in ("min_plus", "max_times")},
    "statement": lambda A, B, d: jsparse.evaluate("y[i] = 2 * A[i,j] * x[j] - 0.5 * A[i,j]", A=A, x=ones(d, 6)),
    "functions": lambda A, B, d: jsparse.evaluate("y[i] += sqrt(A[i,j]) * exp(x[j]) / (1 + x[j])", A=A, x=ones(d, 6)),
    "formats": lambda A, B, d: [A.todense(), A.asformat("csc"), A.asformat("coo"), A.astype("float32"), A.coords],
    "indices": lambda A, B, d: [A[1], A[1:3], A[::2, ::-1], A[1, 2], A[IDS, IDS % 5], A.at_coords([IDS, IDS])],
    "taken": lambda A, B, d: A.take(IDS, 1, nse=90),
    "shapes": lambda A, B, d: [A.reshape(6, 5), jsparse.repeat(A, 2, 0), jsparse.tile(A, (2, 1)), jsparse.roll(A, 1, 0),
                               jsparse.flip(A, 0), jsparse.broadcast_to(A, (2, 5, 6)), A.diagonal()],
    "joined": lambda A, B, d: [jsparse.concatenate([A, B]), jsparse.stack([A, B]), jsparse.block_diag([A, B]),
                               jsparse.kron(A, B), jsparse.outer(A[0], B[0]), jsparse.hstack([A, B])],
    "surgery": lambda A, B, d: [A.prune(keep=4), A.prune(threshold=1.5), A.regrow(ones(d, 5, 6), 2), A.restrict(B),
                                A.drop_zeros(), jsparse.top_k(A, 2), A.with_values(2 * A.values)],
    "fused": lambda A, B, d: jsparse.fuse(lambda A, x: jax.nn.relu(A @ x) * 2)(A, ones(d, 6, 3)),
    "sparsified": lambda A, B, d: jsparse.sparsify(lambda A: jnp.mean(A, 0) + jnp.sum(A + 1.0, 0) + jnp.max(A, 0))(A),
    "gradient": lambda A, B, d: jsparse.value_and_grad(lambda A, x: ((A @ x) ** 2).sum(), (0, 1))(A, ones(d, 6)),
    "batch": lambda A, B, d: jax.vmap(lambda x: A @ x)(ones(d, 4, 6)),
}  # fmt: skip
GRAPHS = {  # of a square matrix A, features x (6, 4) and the dtype
    **{name: lambda A, x, d, name=name: getattr(jsparse.graph, name)(A) for name in (
        "normalize", "add_self_loops", "remove_self_loops", "degree", "symmetrize", "to_edges"
    )},
    "normalised rows": lambda A, x, d: jsparse.graph.normalize(A, "row"),
    "permute": lambda A, x, d: jsparse.graph.permute(A, np.arange(6)[::-1]),
    "nearest": lambda A, x, d: jsparse.graph.knn_graph(x, 2),
    "nearest by angle": lambda A, x, d: jsparse.graph.knn_graph(x, 2, metric="cosine"),
    "aggregate": lambda A, x, d: nn.aggregate(A, x, ("sum", "mean", "max", "min", "std")),
    "attention": lambda A, x, d: jsparse.sparse_attention(x, x, x, A),
    "dot product": lambda A, x, d: jsparse.dot_product_attention(*[x[None, :, None]] * 3, mask=A),
    "pools": lambda A, x, d: [*(nn.pool(x, IDS, 3, kind) for kind in ("sum", "mean", "max")),
                              nn.attention_pool(x, x[:, 0], IDS, 3)],
    "bags": lambda A, x, d: [nn.embedding_bag(x, IDS.reshape(3, 2), reduction=kind) for kind in ("sum", "mean")],
    "gradient of rows": lambda A, x, d: jsparse.grad(
        lambda x: (x[IDS] ** 2).sum() + x[IDS[0]].sum() + (nn.embedding_bag(x, IDS[None]) @ (A @ x).T).sum(), rows=True
    )(x),
    "experts": lambda A, x, d: nn.mixture_of_experts(
        x, nn.route(x, 2), ones(d, 4, 4, 5), ones(d, 4, 5, 4), jax.nn.relu
    ),
    "activations": lambda A, x, d: nn.top_k_activations(x, 2),
    "coordinates": lambda A, x, d: jsparse.SparseTensor.from_coords(np.stack([IDS, IDS]), ones(d, 6), (6, 6), nse=7),
    "made": lambda A, x, d: [jsparse.eye(6, dtype=d) @ x, jsparse.random(KEY, (3, 6), density=0.5, dtype=d) @ x],
    "moving array": lambda A, x, d: jsparse.asarray(x, dynamic=True, nse=24),
}  # fmt: skip


def ones(dtype, *shape):
    return jnp.ones(shape, dtype)


@pytest.fixture(params=MODES)
def dtype(request):
    with jax.enable_x64(MODES[request.param]):
        yield jnp.dtype(request.param.partition(",")[0])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dynamic", [False, True])
def test_functions(dtype, dynamic):
    def made(x):
        A = jsparse.asarray(jnp.asarray(x, dtype))
        return A.dynamic(A.nse + 3).with_transpose() if dynamic else A

    A, B, S, x = made(DENSE), made(DENSE[:, ::-1].copy()), made(SQUARE), ones(dtype, 6, 4)
    for name, function in ENTRIES.items():
        checked(name, lambda A, B, f=function: f(A, B, dtype), A, B)
    for name, function in GRAPHS.items():
        checked(name, lambda A, x, f=function: f(A, x, dtype), S, x)


@pytest.mark.parametrize("x64", [False, True])
def test_derivatives(x64):
    """Those of the functions whose sums `narrow_floats` compares, in a dtype that it does not."""
    for name, case in CASES.items():

        def both(*arguments, function=case.function):
            out, pull = jax.vjp(function, *arguments)
            return out, pull(jax.tree.map(jnp.ones_like, out))

        with jax.enable_x64(x64):
            checked(name, both, *(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in case.shapes))


def checked(name, function, *arguments):
    try:
        jax.eval_shape(function, *arguments)
    except (TypeError, ValueError, jsparse.DTypeError) as error:
        raise AssertionError(f"{name}: {error}") from error
