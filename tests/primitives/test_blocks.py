"""Products of blocks by the kernels for GPUs and TPUs: numbers in interpret mode, and the programs that have them."""

import sys
import warnings
from dataclasses import replace
from functools import partial

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import jsparse
from jsparse import NotYetSupportedError, SparseTensor
from jsparse._compat import lower_as
from jsparse.primitives import lowerings
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.portable import block_kernels, blocks
from jsparse.primitives.portable.blocks import block_product
from jsparse.primitives.portable.einsum import compute_einsum
from jsparse.primitives.portable.stream import slots_of, stream_of
from jsparse.primitives.portable.summed import CPU
from jsparse.primitives.spec import ArrayAccess, PatternAccess, Spec
from jsparse.program_settings import PORTABLE
from jsparse.tensor.dynamic_pattern import DynamicPattern

RNG = np.random.default_rng(0)
KERNELS = {"gpu": block_kernels.multiply_on_gpu, "tpu": block_kernels.multiply_on_tpu}
CALLS = {"cuda": "@__gpu$xla.gpu.triton", "tpu": "@tpu_custom_call"}
CALLS_LATER = {"cuda": "@triton_kernel_call_ffi"}  # after JAX 0.10
SIDE = {"gpu": 16, "tpu": 128, "cuda": 16}
"""The side of the smallest block that a kernel takes."""


@pytest.fixture(params=KERNELS)
def unit(request):
    return request.param


@pytest.fixture
def taken(unit, monkeypatch):
    """Einsums are computed by the kernel, in interpret mode. The list has a subscript for each that the kernel took."""
    found = []

    def kernel(spec, factors, index):
        out = KERNELS[unit](spec, factors, index, interpret=True)
        found.extend([] if out is None else [spec.subscripts])
        return out

    rule = lower_as(partial(compute_einsum, machine=CPU, kernel=kernel))
    monkeypatch.setitem(lowerings.LOWERINGS[einsum_p], PORTABLE, rule)
    with jsparse.config(backend="xla"):
        yield found


def integers(*shape, most=3, dtype=np.float32):
    return RNG.integers(-most, most + 1, shape).astype(dtype)


def blocked(stored, *block, format="csr", spare=None, **options):
    """A tensor with a block of integers at each place where `stored` is true, and the same as a dense array.

    `spare` is the number of unused blocks of a dynamic tensor. By default the tensor is static.
    """
    dense = np.where(stored.reshape(*stored.shape, *[1] * len(block)), integers(*stored.shape, *block, **options), 0)
    core = jsparse.asarray(stored.astype(np.float32), format=format)
    coordinates = tuple(np.asarray(core.coords))
    A = SparseTensor(jnp.asarray(dense[coordinates].reshape(-1)), core.pattern.extended(list(block)))
    return A if spare is None else A.dynamic(A.nse + spare * int(np.prod(block))), dense


def gaps(rows=4, columns=5):
    """Places of blocks. One row and one column are empty, another row and another column are full."""
    stored = RNG.random((rows, columns)) < 0.5
    stored[2], stored[:, 3] = True, True
    stored[1], stored[:, 1] = False, False
    return stored


def same(found, expected):
    np.testing.assert_array_equal(np.asarray(found, np.float32), np.asarray(expected, np.float32))


# ---- numbers


@pytest.mark.parametrize("spare", [None, 2])
def test_a_layer_and_its_gradients(unit, taken, spare):
    """The columns of x are no multiple of a tile, and K has several tiles."""
    rows, k, m = (70, 128, 16) if unit == "gpu" else (260, 384, 128)
    A, dense = blocked(gaps(), k, m, spare=spare)
    x, cotangent = integers(rows, 4, k), integers(rows, 5, m)
    out, pull = jax.vjp(jax.jit(lambda v, x: jsparse.einsum("nik,ijkl->njl", x, A.with_values(v))), A.values, x)
    same(out, np.einsum("nik,ijkl->njl", x, dense))
    assert taken == ["nik,ijkl->njl"]
    of_values, of_x = pull(jnp.asarray(cotangent))
    same(of_x, np.einsum("njl,ijkl->nik", cotangent, dense))
    stored = (dense != 0).any((2, 3))[..., None, None]
    same(A.with_values(of_values).todense(), np.einsum("nik,njl->ijkl", x, cotangent) * stored)
    assert taken == ["nik,ijkl->njl", "ijkl,njl->nik"]


def test_entries_that_do_not_count_are_skipped(unit, taken):
    """Padding, and coordinates out of range, have NaN as their values and name sources that are NaN or do not exist."""
    b = SIDE[unit]
    A, dense = blocked(np.array([[1, 1, 1], [0, 0, 0], [1, 0, 1]], bool), b, b, spare=3)
    values = np.asarray(A.values).reshape(8, b, b).copy()
    values[[1, 5, 6, 7]] = np.nan
    arrays = (A.pattern.arrays[0], jnp.array([0, 3, 2, 0, 2, 1, -1, 7]))  # the second entry is out of range
    wrong = SparseTensor._wrap(jnp.asarray(values.reshape(-1)), DynamicPattern(A.pattern.type, arrays))
    dense[0, 1] = 0
    x = integers(3, b, 20)
    x[1] = np.nan
    expected = np.einsum("ijkl,jln->ikn", dense[:, [0, 2]], x[[0, 2]])
    same(jax.jit(lambda A, x: jsparse.einsum("ijkl,jln->ikn", A, x))(wrong, x), expected)
    x = integers(3, b, 20)
    same(jax.jit(lambda A, x: jsparse.einsum("ijkl,iln->jkn", A, x))(wrong, x), np.einsum("ijkl,iln->jkn", dense, x))
    assert len(taken) == 2


def test_no_entries(unit, taken):
    b = SIDE[unit]
    A, _ = blocked(np.zeros((3, 2), bool), b, b, spare=2)
    A = A.with_values(jnp.full(A.nse, jnp.nan))
    same(jax.jit(lambda A, x: jsparse.einsum("ijkl,jln->ikn", A, x))(A, integers(2, b, 5)), np.zeros((3, b, 5)))
    assert len(taken) == 1
    empty, _ = blocked(np.zeros((3, 2), bool), b, b)
    same(jax.jit(lambda x: jsparse.einsum("ijkl,jln->ikn", empty, x))(integers(2, b, 5)), np.zeros((3, b, 5)))


def test_an_overflow_gives_nan(unit, taken):
    b = SIDE[unit]
    A, _ = blocked(np.eye(2, dtype=bool), b, b, spare=0)
    pointers, coordinates = A.pattern.arrays
    full = SparseTensor._wrap(A.values, DynamicPattern(A.pattern.type, (pointers.at[-1].set(9), coordinates)))
    out = jax.jit(lambda A, x: jsparse.einsum("ijkl,jln->ikn", A, x))(full, integers(2, b, 5))
    assert np.isnan(out).all()
    assert len(taken) == 1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_floats_are_summed_in_float32(unit, taken, dtype):
    """The sums need more bits than the dtype has, so a sum that is rounded more than once gives other numbers."""
    if (unit, dtype) == ("tpu", "float16"):
        pytest.skip("TPUs have no float16")
    b = SIDE[unit]
    A, dense = blocked(np.ones((2, 6), bool), b, b, most=15)
    x = integers(6, b, 20, most=7) + 15
    expected = np.einsum("ijkl,jln->ikn", dense, x)
    assert np.abs(expected).max() > 2**11
    narrow = jax.jit(lambda A, x: jsparse.einsum("ijkl,jln->ikn", A, x))(A.astype(dtype), jnp.asarray(x, dtype))
    assert narrow.dtype == dtype
    same(narrow, expected.astype(dtype))
    wide = jsparse.einsum("ijkl,jln->ikn", A.astype(dtype), jnp.asarray(x, dtype), preferred_element_type="float32")
    same(wide, expected)
    assert len(taken) == 2


def test_factors_of_two_dtypes(unit, taken):
    b = SIDE[unit]
    A, dense = blocked(gaps(), b, b)
    x = integers(5, b, 20, most=1000)  # not exact in bfloat16
    found = jax.jit(lambda A, x: jsparse.einsum("ijkl,jln->ikn", A, x))(A.astype("bfloat16"), x)
    same(found, np.einsum("ijkl,jln->ikn", dense, x))
    assert len(taken) == 1


SEVERAL = {
    "in order": "ijabcd,jcdxy->iabxy",
    "mixed": "ijcadb,xdjcy->bxiya",
    "over the other": "ijabcd,icdxy->jabxy",
}


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.sampled(2)
def test_several_dense_variables(unit, taken, name):
    subscripts = SEVERAL[name]
    sizes = {"i": 4, "j": 5, "x": 2, "y": 3, "d": 4}
    sizes |= {"a": 2, "b": 8, "c": 4} if unit == "gpu" else {"a": 8, "b": 16, "c": 32}
    values, other = subscripts.partition("->")[0].split(",")
    A, dense = blocked(gaps(), *(sizes[v] for v in values[2:]))
    x = integers(*(sizes[v] for v in other))
    same(jax.jit(lambda x: jsparse.einsum(subscripts, A, x))(x), np.einsum(subscripts, dense, x))
    assert len(taken) == 1


PATTERNS = {
    "csc": ("csc", "ijkl,jln->ikn"),
    "range": ("(i, j) -> (i : dense, j : range)", "ijkl,jln->ikn"),
    "dcsr": ("dcsr", "ijkl,iln->jkn"),
    "a matrix for each": ("csf", "pijkl,pjln->pikn"),
    "a sum of matrices": ("coo", "pijkl,jln->ikn"),
    "two targets": ("csf", "pijkl,jln->ipkn"),
    "a diagonal": ("csr", "iikl,iln->ikn"),
}


@pytest.mark.parametrize("spare", [None, 1])
@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.sampled(3)
def test_patterns(unit, taken, name, spare):
    format, subscripts = PATTERNS[name]
    b, outer = SIDE[unit], subscripts.index("k")
    stored = np.stack([gaps(4, 4), gaps(4, 4), gaps(4, 4)]) if outer == 3 else gaps(4, 4)
    A, dense = blocked(stored, b, b, format=format, spare=spare)
    x = integers(*(3 if v == "p" else 4 for v in subscripts.split(",")[1].partition("l")[0]), b, 20)
    same(jax.jit(lambda A, x: jsparse.einsum(subscripts, A, x))(A, x), np.einsum(subscripts, dense, x))
    assert len(taken) == 1


def test_batches_of_one_factor(unit, taken):
    b = SIDE[unit]
    A, dense = blocked(gaps(), b, b)
    x = integers(3, 5, b, 4)
    product = jax.jit(jax.vmap(lambda v, x: jsparse.einsum("ijkl,jln->ikn", A.with_values(v), x), in_axes=(None, 0)))
    same(product(A.values, x), np.einsum("ijkl,pjln->pikn", dense, x))
    product = jax.jit(jax.vmap(lambda v, x: jsparse.einsum("ijkl,jln->ikn", A.with_values(v), x), in_axes=(0, None)))
    same(product(jnp.stack([A.values, 2 * A.values]), x[0]), np.einsum("ijkl,jln,p->pikn", dense, x[0], [1, 2]))
    assert len(taken) == 2


# ---- programs


def lowered(program, platform, *arguments):
    """The text of a program for a platform. The test is skipped where JAX needs its plugin to lower a kernel for it."""
    try:
        return jax.jit(program).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()
    except RuntimeError as error:
        if "Triton compilation handler" not in str(error):
            raise
        pytest.skip(str(error))


def count(text):
    """The number of kernels in a program."""
    return sum(text.count(f"{call}(") for call in (*CALLS.values(), *CALLS_LATER.values()))


def training(side, dtype=jnp.float32, **options):
    """A step of training of a layer of blocks, and its arguments: the loss and its gradients in the values and in x."""
    layer = jsparse.nnx.BlockSparseLinear(
        3 * side, 2 * side, block=(side, side), density=0.5, param_dtype=dtype, rngs=nnx.Rngs(0), **options
    )
    state, rest = nnx.state(layer), nnx.graphdef(layer)

    def loss(state, x):
        return (nnx.merge(rest, state)(x) ** 2).sum()

    return jax.value_and_grad(loss, argnums=(0, 1)), state, jnp.ones((20, 3 * side), dtype)


@pytest.mark.parametrize("platform", ["cuda", "tpu", "rocm"])
def test_a_layer_has_kernels_where_they_are_asked_for(platform):
    step, *arguments = training(128)
    assert count(lowered(step, platform, *arguments)) == 0
    with jsparse.config(blocks="pallas"):
        text = lowered(step, platform, *arguments)
    assert count(text) == (0 if platform == "rocm" else 2)  # forward, and the gradient in x
    if platform == "tpu":
        assert text.count("@tpu_custom_call(") == 2


def test_a_program_for_several_platforms():
    step, *arguments = training(128)
    traced = jax.jit(step).trace(*arguments)
    assert count(traced.lower(lowering_platforms=("cpu", "cuda", "rocm", "tpu")).as_text()) == 0
    with jsparse.config(blocks="pallas"):
        text = lowered(step, "cuda", *arguments) and jax.jit(step).trace(*arguments)
        assert count(text.lower(lowering_platforms=("cpu", "cuda", "rocm", "tpu")).as_text()) == 4


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_programs_with_kernels_are_exported(platform):
    step, *arguments = training(128)
    leaves, tree = jax.tree.flatten(arguments)

    def flat(*leaves):
        return jax.tree.leaves(step(*jax.tree.unflatten(tree, leaves)))

    with jsparse.config(blocks="pallas"):
        lowered(flat, platform, *leaves)
        exported = jsparse.export(jax.jit(flat), platforms=[platform])(*leaves)
    assert count(exported.mlir_module()) == 2
    assert jax.export.deserialize(exported.serialize()).platforms == (platform,)


@pytest.mark.parametrize("platform", CALLS)
def test_kernels_on_a_mesh(platform):
    """The results of kernels vary over the axes of a `shard_map`, as its check of types requires."""
    A, _ = blocked(gaps(), 128, 128)
    mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.PartitionSpec("d")
    product = jax.shard_map(lambda x: jsparse.nn.block_linear(x, A), mesh=mesh, in_specs=rows, out_specs=rows)
    with jsparse.config(blocks="pallas"):
        assert count(lowered(product, platform, jnp.ones((8, 4 * 128)))) == 1


def test_pallas_is_imported_when_it_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsparse.primitives.portable.block_kernels", None)
    monkeypatch.delattr("jsparse.primitives.portable.block_kernels")
    step, *arguments = training(16)
    lowered(step, "cuda", *arguments)
    with jsparse.config(blocks="pallas"), pytest.raises(ImportError):
        lowered(step, "cuda", *arguments)


def test_a_kernel_needs_no_other_backend_of_pallas(monkeypatch):
    """A release of JAX may have no backend for Triton: then GPUs have XLA operations, and a warning says so."""
    from jsparse.primitives.portable import block_kernels

    step, *arguments = training(128)
    block_kernels._has_triton.cache_clear()
    monkeypatch.setitem(sys.modules, "jax.experimental.pallas.triton", None)
    monkeypatch.delattr("jax.experimental.pallas.triton", raising=False)
    with jsparse.config(blocks="pallas"):
        assert count(lowered(step, "tpu", *arguments)) == 2
        with pytest.warns(UserWarning, match="no backend for Triton"):
            assert count(lowered(step, "cuda", *arguments)) == 0
    block_kernels._has_triton.cache_clear()


def test_no_notice_of_pallas_reaches_a_user(monkeypatch):
    """From JAX 0.11, each lowering by Triton warns. Warnings are errors here."""
    from jsparse.primitives.portable import block_kernels

    def noticed(*operands, **options):
        warnings.warn("The Pallas Triton backend is deprecated and will be removed", DeprecationWarning, stacklevel=2)

    step, *arguments = training(128)
    monkeypatch.setattr(block_kernels, "multiply_on_gpu", noticed)
    with jsparse.config(blocks="pallas"):
        lowered(step, "cuda", *arguments)


def test_slow_sums_of_a_release_are_told_once(monkeypatch):
    step, *arguments = training(16)
    for release, warned in (((0, 10, 1), 0), ((0, 10, 2), 1), ((0, 11, 0), 1), ((0, 11, 1), 0)):
        monkeypatch.setattr(lowerings._compat, "jaxlib_version", lambda release=release: release)
        lowerings._warn_of_slow_sums.cache_clear()
        jax.clear_caches()
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            lowered(step, "tpu", *arguments)
            assert not found
            lowered(step, "cuda", *arguments)
            lowered(step, "cuda", *arguments)
        assert [str(x.message).startswith("jaxlib") for x in found] == [True] * warned
    lowerings._warn_of_slow_sums.cache_clear()


def test_the_name_of_calls_is_the_one_that_pallas_says(monkeypatch):
    from jax.experimental.pallas import triton

    from jsparse.primitives import target

    assert target.export_calls()[: 1 + len(target.PALLAS)] == [target.TARGET, *target.PALLAS]
    monkeypatch.setattr(triton, "CUSTOM_CALL_TARGET_NAME", "another_name", raising=False)
    assert target.export_calls() == [target.TARGET, *target.PALLAS, "another_name"]
    monkeypatch.setitem(sys.modules, "jax.experimental.pallas.triton", None)
    monkeypatch.delattr("jax.experimental.pallas.triton")
    assert target.export_calls() == [target.TARGET, *target.PALLAS]


def test_index_arrays_of_static_patterns_are_limited(monkeypatch):
    monkeypatch.setattr(lowerings, "MOST_CONSTANT", 8)
    step, *arguments = training(128)
    with jsparse.config(blocks="pallas"), pytest.raises(NotYetSupportedError, match="in a program for tpu"):
        lowered(step, "tpu", *arguments)


def product(subscripts, block, x, stored=None, dtype=np.float32, spare=None, **options):
    A, _ = blocked(gaps() if stored is None else stored, *block, dtype=dtype, spare=spare)
    return lambda: jsparse.einsum(subscripts, A, jnp.ones(x, A.dtype), **options)


def usual(b, **options):
    return product("ijkl,jln->ikn", (b, b), (5, b, 9), **options)


def sampled(b):
    A, _ = blocked(gaps(), b, b)
    return lambda: jsparse.einsum("ijkl,jln,ikn->ijkl", A, jnp.ones((5, b, 9)), jnp.ones((4, b, 9))).values


def batched(b):
    A, _ = blocked(gaps(), b, b, spare=1)
    stacked = jax.tree.map(lambda x: jnp.stack([x, x]), A)
    return lambda: jax.vmap(lambda A: jsparse.einsum("ijkl,jln->ikn", A, jnp.ones((5, b, 9))))(stacked)


INELIGIBLE = {
    "another semiring": lambda b: usual(b, semiring="min_plus"),
    "integers": lambda b: usual(b, dtype=np.int32),
    "a sampled product": sampled,
    "a batch of patterns": batched,
    "a batch of blocks": lambda b: product("ijbkl,bjln->bikn", (2, b, b), (2, 5, b, 9)),
    "a sum over the blocks' own axis": lambda b: product("ijkla,jln->ikn", (b, b, 2), (5, b, 9)),
    "no rows": lambda b: product("ijkl,jln->kn", (b, b), (5, b, 9)),
    "a vector": lambda b: product("ijkl,jl->ik", (b, b), (5, b)),
    "nothing summed": lambda b: product("ijk,jn->ikn", (b,), (5, 9)),
    "small blocks": lambda b: product("ijkl,jln->ikn", (b, b // 2), (5, b // 2, 9)),
    "blocks of other sizes": lambda b: product("ijkl,jln->ikn", (b + b // 2, b), (5, b, 9)),
    "no blocks": lambda b: usual(b, stored=np.zeros((4, 5), bool)),
}


@pytest.mark.parametrize("platform", CALLS)
def test_other_einsums_are_operations_of_xla(platform, monkeypatch):
    b = SIDE[platform]
    with jsparse.config(blocks="pallas"):
        assert count(lowered(usual(b), platform)) == 1
        kernels = {name: count(lowered(make(b), platform)) for name, make in INELIGIBLE.items()}
        assert {name for name, found in kernels.items() if found} == set()
        monkeypatch.setattr(blocks, "MOST", 4)
        assert count(lowered(usual(b), platform)) == 0


def test_terms_that_planning_does_not_make():
    pattern, sizes = jsparse.asarray(np.eye(4), format="csr").pattern, tuple((v, 4) for v in "ijklnm")
    known = Spec(
        (ArrayAccess((), 0, ("k", "l")), ArrayAccess(("j", "l", "n"))),
        ArrayAccess(("i", "k", "n")),
        (PatternAccess(("i", "j"), pattern),),
        sizes,
    )
    assert block_product(known) is not None
    own, x = known.factors
    for other in (
        ArrayAccess(("j", "l", "n", "m")),
        ArrayAccess(("j", "l", "n", "n")),
        ArrayAccess(("j", "l", "k", "n")),
    ):
        assert block_product(replace(known, factors=(own, other))) is None
    for result in (
        ArrayAccess(("i", "k", "n", "m")),
        ArrayAccess(("i", "k", "n", "n")),
        ArrayAccess(("i", "k", "n"), 0),
    ):
        assert block_product(replace(known, result=result)) is None
    for values in (
        ArrayAccess(("i",), 0, ("k", "l")),
        ArrayAccess((), 0, ("k", "k", "l")),
        ArrayAccess((), 0, ("k", "l", "m")),
    ):
        assert block_product(replace(known, factors=(values, x))) is None


def test_entries_are_sorted_by_their_targets():
    """All numbers are in range, also for slots that do not count."""
    type_ = jsparse.asarray(np.ones((3, 4), np.float32), format="csr").dynamic().pattern.type
    arrays = (jnp.array([0, 3, 3, 6]), jnp.array([0, 2, 9, 3, 0, -5, 7, *[-1] * 5]))
    spec = Spec(
        (ArrayAccess((), 0, ("k", "l")), ArrayAccess(("i", "l", "n"))),
        ArrayAccess(("j", "k", "n")),
        (PatternAccess(("i", "j"), type_),),
        (("i", 3), ("j", 4), *((v, 2) for v in "kln")),
    )
    rows = stream_of(spec.walks[0], 0, slots_of(type_, arrays))
    entries = blocks.SortedEntries.of(rows, block_product(spec))
    same(entries.pointers, [0, 2, 2, 3, 4])
    same(entries.slots[:4], [0, 4, 1, 3])
    assert sorted(entries.slots.tolist()) == list(range(12))
    same(entries.sources, [0, 2, 0, 2, *[0] * 8])
    same(entries.targets, [0, 0, 2, 3, *[3] * 8])


def test_what_a_tpu_does_not_take(monkeypatch):
    half = usual(128, dtype=np.float16)
    with jsparse.config(blocks="pallas"):
        assert [count(lowered(half, platform)) for platform in ("tpu", "cuda")] == [0, 1]
        monkeypatch.setattr(block_kernels, "MOST_SCALARS", 10)  # fewer than a full row of blocks needs
        assert count(lowered(usual(128), "tpu")) == 0
