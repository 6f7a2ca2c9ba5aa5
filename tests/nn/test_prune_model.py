"""Pruned models: sparse layers of dense ones, compared with numpy's masks of the dense kernels."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

nnx = pytest.importorskip("flax.nnx")

import jsparse  # noqa: E402
import jsparse.nnx  # noqa: E402
from jsparse.nnx import BlockSparseLinear, PrunedLinear, SparseAttention, SparseLinear, prune_model  # noqa: E402

RNG = np.random.default_rng(0)
X = jnp.asarray(RNG.standard_normal((3, 5, 16)), jnp.float32)


def masked(kernel, sparsity):
    """The kernel with its largest magnitudes alone."""
    kernel = np.asarray(kernel)
    count = round((1 - sparsity) * kernel.size)
    least = np.sort(np.abs(kernel).ravel())[::-1][count - 1] if count else np.inf
    return np.where(np.abs(kernel) >= least, kernel, 0)


def masked_blocks(kernel, block, sparsity):
    """The kernel with its blocks of largest norm alone."""
    kernel, (r, c) = np.asarray(kernel, np.float64), block
    blocks = kernel.reshape(kernel.shape[0] // r, r, -1, c).transpose(0, 2, 1, 3)
    norms = np.sqrt((blocks**2).sum((2, 3)))
    count = round((1 - sparsity) * norms.size)
    least = np.sort(norms.ravel())[::-1][count - 1] if count else np.inf
    return (blocks * (norms >= least)[:, :, None, None]).transpose(0, 2, 1, 3).reshape(kernel.shape)


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found, np.float32), np.asarray(expected, np.float32), tolerance, tolerance)


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("sparsity", [0.0, 0.7, 1.0, 1])
def test_of_linear(use_bias, sparsity):
    dense = nnx.Linear(16, 6, use_bias=use_bias, bias_init=nnx.initializers.normal(), rngs=nnx.Rngs(0))
    layer = SparseLinear.of(dense, sparsity=sparsity)
    assert layer.kernel.tensor.format == jsparse.asarray(np.eye(2), format="csc").format
    assert layer.kernel.tensor.nse == round((1 - sparsity) * 96)
    dense.kernel[...] = masked(dense.kernel[...], sparsity)
    close(layer(X), dense(X))


@pytest.mark.parametrize("sizes", [((16,), (2, 3)), ((4, 4), (5,)), ((4, 4), (2, 3)), ((16,), (6,)), (16, 6)])
def test_of_linear_general(sizes):
    inputs, outputs = sizes
    axis = tuple(range(-len(inputs), 0)) if isinstance(inputs, tuple) else -1
    dense = nnx.LinearGeneral(inputs, outputs, axis=axis, bias_init=nnx.initializers.normal(), rngs=nnx.Rngs(0))
    layer = SparseLinear.of(dense, sparsity=0.5)
    x = X.reshape(3, 5, *dense.in_features)
    dense.kernel[...] = masked(dense.kernel[...], 0.5)
    assert layer(x).shape == dense(x).shape
    close(layer(x), dense(x))
    merged = nnx.merge(*nnx.split(layer))
    close(merged(x), dense(x))


@pytest.mark.parametrize(
    ("dtype", "param_dtype"), [("bfloat16", "float32"), (None, "bfloat16"), ("float32", "float16")]
)
def test_dtypes_stay(dtype, param_dtype):
    dense = nnx.Linear(16, 6, dtype=dtype, param_dtype=param_dtype, precision="highest", rngs=nnx.Rngs(0))
    layer = SparseLinear.of(dense)
    assert layer.kernel.tensor.dtype == layer.bias[...].dtype == jnp.dtype(param_dtype)
    assert layer(X).dtype == dense(X).dtype
    close(layer(X), dense(X), 2e-2)
    assert SparseLinear.of(dense, dtype="float32")(X).dtype == jnp.float32


def test_a_sparse_layer_is_pruned_further():
    dense = nnx.Linear(16, 6, rngs=nnx.Rngs(0))
    layer = SparseLinear.of(SparseLinear.of(dense, sparsity=0.5, format="csr"), sparsity=0.75, dynamic=True)
    assert "dynamic" in repr(layer.kernel.tensor)
    layer.rewire(jnp.ones((16, 6)), 0)
    close(layer.kernel.tensor.todense(), masked(dense.kernel[...], 0.75))


def test_the_parameters_of_the_new_layer_are_its_own():
    dense = nnx.Linear(16, 6, rngs=nnx.Rngs(0))
    layer = SparseLinear.of(dense)
    layer.bias[...] = layer.bias[...] + 1
    close(dense.bias[...], np.zeros(6))


class Lora(nnx.Linear):
    """A subclass that computes something else."""

    def __call__(self, x, out_sharding=None):
        return 2 * super().__call__(x)


def stacked():
    keys = jax.random.split(jax.random.key(0), 3)
    return nnx.vmap(lambda key: nnx.Linear(16, 16, rngs=nnx.Rngs(key)))(keys)


UNSUITABLE = {
    "dot_general": lambda rngs: nnx.Linear(16, 16, dot_general=lambda *a, **b: jax.lax.dot_general(*a, **b), rngs=rngs),
    "promote_dtype": lambda rngs: nnx.Linear(16, 16, promote_dtype=lambda x, **_: x, rngs=rngs),
    "preferred_element_type": lambda rngs: nnx.Linear(16, 16, preferred_element_type=jnp.float32, rngs=rngs),
    "batch_axis": lambda rngs: nnx.LinearGeneral(16, 16, batch_axis={0: 3}, rngs=rngs),
    "axis=": lambda rngs: nnx.LinearGeneral(16, 16, axis=0, rngs=rngs),
    "subclass": lambda rngs: Lora(16, 16, rngs=rngs),
    "nnx.vmap": lambda rngs: stacked(),
}


@pytest.mark.parametrize("reason", UNSUITABLE)
def test_layers_that_compute_something_else_stay_dense(reason):
    layer = UNSUITABLE[reason](nnx.Rngs(0))
    with pytest.raises(jsparse.NotYetSupportedError, match=reason):
        SparseLinear.of(layer)
    model = nnx.List([layer, nnx.Linear(16, 16, rngs=nnx.Rngs(0))])
    pruned, summary = prune_model(model, 0.5)
    assert type(pruned[0]) is type(layer)
    assert isinstance(pruned[1], SparseLinear)
    (note,) = (kernel.note for kernel in summary.kernels if kernel.note)
    assert note.startswith("dense: ")
    assert reason in note


class Model(nnx.Module):
    """Layers in modules, lists and dictionaries; one of them in two places."""

    def __init__(self, rngs):
        self.embed = nnx.Embed(10, 16, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(4, 16, rngs=rngs, decode=False)
        self.shared = nnx.Linear(16, 16, rngs=rngs)
        self.layers = nnx.List([self.shared, nnx.Linear(16, 16, rngs=rngs)])
        self.plain = nnx.data([nnx.Linear(16, 16, rngs=rngs)])
        self.named = nnx.data({"a": nnx.Linear(16, 16, rngs=rngs)})
        self.masked = PrunedLinear(16, 16, rngs=rngs)
        self.norm = nnx.LayerNorm(16, rngs=rngs)
        self.graph = jsparse.nnx.SparseLinear(16, 16, density=0.5, dynamic=True, rngs=rngs)

    def __call__(self, ids):
        x = self.shared(self.attention(self.embed(ids)))
        for layer in (*self.layers, *self.plain, *self.named.values()):
            x = layer(x)
        return self.graph(self.norm(self.masked(x)))


IDS = jnp.arange(10)[None]


def dense_of(model):
    """The kernels as dense arrays, by path."""
    found = {}
    for path, node in nnx.iter_graph(model):
        if isinstance(node, SparseLinear):
            found[path] = np.asarray(node.kernel.tensor.todense()).reshape(-1)
        elif isinstance(node, nnx.Linear | nnx.LinearGeneral):
            found[path[:-1] if path[-1] == "linear" else path] = np.asarray(node.kernel[...]).reshape(-1)
    return found


def test_a_model():
    model = Model(nnx.Rngs(0))
    model.masked.prune(0.6)
    before = model(IDS)
    same, summary = prune_model(model, 0.0)
    close(same(IDS), before, 1e-4)
    assert same.shared is same.layers[0]
    assert not [node for _, node in nnx.iter_graph(same) if type(node) in (nnx.Linear, nnx.LinearGeneral, PrunedLinear)]
    assert same.masked.kernel.tensor.nse == round(0.4 * 256)
    notes = {kernel.path: kernel.note for kernel in summary.kernels if kernel.note}
    assert notes == {("embed", "embedding"): "dense: no sparse Embed"}
    assert "parameters: " in str(summary)
    half, _ = prune_model(same, lambda path, layer: 0.5 if "attention" in path else 0.8)
    kernels = dense_of(model)
    for path, kernel in dense_of(half).items():
        if path not in [("masked",), ("graph",)]:
            close(kernel, masked(kernels[path], 0.5 if "attention" in path else 0.8))
    np.testing.assert_array_equal(model(IDS), before)  # as it was


def test_magnitudes_of_all_layers():
    model = [nnx.Linear(16, 6, rngs=nnx.Rngs(n)) for n in range(3)]
    model[1].kernel[...] = 3 * model[1].kernel[...]
    model[2].kernel[...] = jnp.round(2 * model[2].kernel[...]) / 2  # equal ones, and zeros
    pruned, summary = prune_model(model, 0.8, across_layers=True)
    kernels = np.concatenate([np.asarray(layer.kernel[...]).ravel() for layer in model])
    found = np.concatenate([np.asarray(layer.kernel.tensor.todense()).ravel() for layer in pruned])
    count = round(0.2 * kernels.size)
    assert (found != 0).sum() == count == sum(kernel.nse for kernel in summary.kernels)
    np.testing.assert_array_equal(found[found != 0], kernels[found != 0])
    close(np.sort(np.abs(found))[-count:], np.sort(np.abs(kernels))[-count:], 0)
    assert len({kernel.nse for kernel in summary.kernels}) == 3
    again, _ = prune_model(pruned, 0.9, across_layers=True)
    both, _ = prune_model(model, 0.9, across_layers=True)
    assert sum(layer.kernel.tensor.nse for layer in again) == sum(layer.kernel.tensor.nse for layer in both)


@pytest.mark.parametrize("param_dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("block", "sparsity"), [((4, 2), 0.0), ((4, 3), 0.75), ((16, 6), 0.0), ((1, 6), 0.5), ((8, 2), 1.0)]
)
def test_blocks_of_largest_norm_stay(block, sparsity, param_dtype):
    dense = nnx.Linear(16, 6, bias_init=nnx.initializers.normal(), param_dtype=param_dtype, rngs=nnx.Rngs(0))
    layer = BlockSparseLinear.of(dense, block=block, sparsity=sparsity)
    expected = masked_blocks(dense.kernel[...], block, sparsity)
    assert str(layer.kernel.tensor.format) == f"bsr({block[0]}, {block[1]})"
    assert layer.kernel.tensor.dtype == jnp.dtype(param_dtype)
    close(layer.kernel.tensor.todense(), expected, 0)
    again = BlockSparseLinear.of(SparseLinear.of(dense, dynamic=True), block=block, sparsity=sparsity)
    close(again.kernel.tensor.todense(), expected, 0)
    dense.kernel[...] = jnp.asarray(expected, param_dtype)
    close(layer(X), dense(X), 1e-5 if param_dtype == "float32" else 2e-2)


def test_blocks_of_zeros_are_not_stored():
    kernel = np.zeros((16, 6), np.float32)
    kernel[5, 3] = np.nan
    kernel[9, 0] = -1e-30
    layer = BlockSparseLinear.of(jsparse.asarray(kernel).asformat("csr"), block=(4, 2))
    assert layer.kernel.tensor.nse == 16
    np.testing.assert_array_equal(layer.kernel.tensor.todense(), kernel)
    stored = jsparse.SparseTensor(jnp.zeros(96), jsparse.pattern.window(16, 16)[:, :6])
    assert BlockSparseLinear.of(stored, block=(4, 2)).kernel.tensor.nse == 0


def test_a_model_of_blocks():
    model = nnx.Dict(
        a=nnx.Linear(16, 8, rngs=nnx.Rngs(0)),
        b=nnx.Linear(8, 6, rngs=nnx.Rngs(1)),
        c=PrunedLinear(8, 8, rngs=nnx.Rngs(2)),
    )
    model.a.kernel[...] *= 5
    pruned, summary = prune_model(model, 0.5, block=(4, 4))
    assert isinstance(pruned.a, BlockSparseLinear)
    assert isinstance(pruned.c, BlockSparseLinear)
    assert {kernel.path: kernel.note for kernel in summary.kernels if kernel.note} == {
        ("b",): "dense: blocks (4, 4) do not divide (8, 6)"
    }
    close(pruned.a.kernel.tensor.todense(), masked_blocks(model.a.kernel[...], (4, 4), 0.5), 0)
    together, _ = prune_model(model, 0.5, block=(4, 4), across_layers=True)
    assert together.a.kernel.tensor.nse == 96  # the larger weights: six of their eight blocks, and none of the others
    assert together.c.kernel.tensor.nse == 0
    further, _ = prune_model(pruned, 0.75, block=(4, 4))
    close(further.a.kernel.tensor.todense(), masked_blocks(model.a.kernel[...], (4, 4), 0.75), 0)
    _, notes = prune_model(nnx.Dict(blocks=pruned.a, linear=model.b), 0.5)
    assert notes.kernels[0].note == "blocks are pruned with block="


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "options", [{}, {"num_kv_heads": 2}, {"use_bias": False}, {"param_dtype": jnp.bfloat16}, {"dtype": jnp.bfloat16}]
)
def test_attention(options):
    mask = jsparse.pattern.causal(12, before=5)
    model = jsparse.nnx.TransformerBlock(mask, 4, 16, rngs=nnx.Rngs(0), bias_init=nnx.initializers.normal(), **options)
    sparsity = 0.0 if "param_dtype" in options else 0.5  # many magnitudes are equal in bfloat16
    pruned, summary = prune_model(model, lambda path, layer: sparsity if "attention" in path else 0.0)
    assert not [kernel.note for kernel in summary.kernels if kernel.note]
    assert isinstance(pruned.attention.query, SparseLinear)
    for name in ("query", "key", "value", "out"):
        kernel = getattr(model.attention, name)["kernel"]
        matrix = kernel[...].reshape((-1, 16) if name == "out" else (16, -1))
        kernel[...] = jnp.asarray(masked(matrix, sparsity), kernel.dtype).reshape(kernel.shape)
    x = jnp.asarray(RNG.standard_normal((2, 12, 16)), jnp.float32)
    narrow = jnp.bfloat16 in options.values()
    close(pruned(x), model(x), 3e-2 if narrow else 1e-5)
    for block in (model, pruned):
        block.init_cache((2, 12, 16))
    close(pruned(x[:, :7], decode=True), model(x[:, :7], decode=True), 3e-2 if narrow else 1e-5)
    close(pruned(x[:, 7:8], decode=True), model(x[:, 7:8], decode=True), 3e-2 if narrow else 1e-5)
    of_blocks, _ = prune_model(model, 0.5, block=(4, 4), where=lambda path, layer: path[-1] == "out")
    assert isinstance(of_blocks.attention.out, BlockSparseLinear)
    assert of_blocks(x).shape == x.shape


def test_projections_may_be_functions():
    layer = SparseAttention(jsparse.pattern.window(12, 3), 4, 16, rngs=nnx.Rngs(0))
    x = jnp.asarray(RNG.standard_normal((2, 12, 16)), jnp.float32)
    kernels = {name: getattr(layer, name)["kernel"][...] for name in ("query", "key", "value", "out")}
    functions = {name: lambda x, k=kernels[name]: jnp.tensordot(x, k, 1) for name in ("query", "key", "value")}
    attended = jsparse.nn.multi_head_attention(
        x, x, layer.mask, **functions, out=lambda y: jnp.tensordot(y, kernels["out"], 2)
    )
    close(attended, layer(x))


def test_what_is_shared_or_fixed_is_named():
    rngs = nnx.Rngs(0)
    tied, other = nnx.Linear(16, 16, rngs=rngs), nnx.Linear(16, 16, rngs=rngs)
    other.kernel, other.bias = tied.kernel, tied.bias
    free = nnx.Linear(16, 16, rngs=rngs)
    free.bias = tied.bias
    pruned, summary = prune_model(
        {"tied": tied, "other": other, "free": free, "fixed": (nnx.Linear(2, 3, rngs=rngs),)}, 0.5
    )
    notes = {kernel.path[0]: kernel.note for kernel in summary.kernels}
    assert "the same kernel" in notes["tied"]
    assert "the same kernel" in notes["other"]
    assert "in a tuple" in notes["fixed"]
    assert pruned["tied"].kernel is pruned["other"].kernel
    assert isinstance(pruned["free"], SparseLinear)
    assert pruned["free"].bias is pruned["tied"].bias is not tied.bias


def test_a_pruned_model_is_pickled():
    pruned, _ = prune_model(nnx.List([nnx.Linear(16, 6, rngs=nnx.Rngs(0))]), 0.5)
    graphdef, state = pickle.loads(pickle.dumps(nnx.split(pruned)))
    np.testing.assert_array_equal(nnx.merge(graphdef, state)[0](X), pruned[0](X))


def test_a_state_belongs_to_its_format():
    dense = nnx.Linear(16, 6, rngs=nnx.Rngs(0))
    by_columns, by_rows = SparseLinear.of(dense, sparsity=0.5), SparseLinear.of(dense, sparsity=0.5, format="csr")
    close(by_rows(X), by_columns(X))
