"""Random einsums, whose operands are divided at random, equal those on one device; so do their gradients."""

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from meshes.programs import P, draw, matrix

import jsparse

SIZES = {"i": 12, "j": 8, "k": 4, "b": 8, "h": 4}
FORMATS = ("csr", "csc", "coo", "bsr(4, 4)", "group_coo(2)", "dynamic")
MESHES = (((4,), ("x",)), ((2, 2), ("x", "y")))
SEMIRINGS = ("plus_times", "plus_times", "min_plus", "max_times")


def random_einsum(rng):
    """Subscripts, a sparse operand, dense operands, and whether the matrix is batched."""
    dense = []
    for _ in range(rng.integers(1, 4)):
        letters = rng.permutation(list("ijkbh"))[: rng.integers(1, 5)]
        dense.append("".join(letters))
    used = sorted(set("ij").union(*dense))
    result = "".join(rng.permutation([v for v in used if rng.random() < 0.7]))
    format = str(rng.choice(FORMATS))
    if format == "dynamic":
        A = matrix(SIZES["i"], SIZES["j"], dynamic=True, nse=100)
    else:
        A = matrix(SIZES["i"], SIZES["j"], format)
    arrays = [draw(*(SIZES[v] for v in term)) for term in dense]
    return f"ij,{','.join(dense)}->{result}", A, arrays


def random_spec(rng, term, sizes, whole):
    """A random division of the axes of an operand, except of the indices `whole`."""
    left, entries = [str(n) for n in rng.permutation(list(sizes))], []
    for v in term:
        names = []
        while v not in whole and left and rng.random() < 0.5:
            names.append(left.pop())
        count = int(np.prod([sizes[name] for name in names]))
        entries.append(tuple(names) if SIZES[v] % count == 0 and names else None)
    return P(*entries)


def alike(rng, terms, sizes, whole):
    """Divisions of operands in which each index is divided over the same mesh axes, and different ones over others."""
    letters = sorted({v for term in terms for v in term}.difference(whole))
    of = dict(zip(letters, random_spec(rng, letters, sizes, ()), strict=True))
    return [P(*(of.get(v) if rng.random() < 0.7 else None for v in term)) for term in terms]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("seed", range(40))
def test_random_divisions(kind, seed):
    rng = np.random.default_rng(seed)
    text, A, arrays = random_einsum(rng)
    terms = text.partition("->")[0].split(",")[1:]
    shape, names = MESHES[rng.integers(2)]
    mesh = jax.make_mesh(shape, names, axis_types=(getattr(AxisType, kind.title()),) * len(shape))
    sizes, is_explicit = dict(zip(names, shape, strict=True)), kind == "explicit"
    semiring = str(rng.choice(SEMIRINGS))
    divided = alike(rng, terms, sizes, "ij") if is_explicit else [random_spec(rng, t, sizes, "") for t in terms]

    def compute(values, *arrays, out_sharding=None):
        out = jsparse.einsum(
            text, A.with_values(values), *arrays, out_format="dense", semiring=semiring, out_sharding=out_sharding
        )
        return jnp.where(jnp.isfinite(out), out, 0)

    def both(*x, **options):
        out, pull = jax.vjp(lambda *x: compute(*x, **options), *x)
        return out, pull(jnp.ones_like(out))

    wanted = jax.jit(both)(A.values, *arrays)
    with jax.set_mesh(mesh) if is_explicit else nullcontext():
        placed = [jax.device_put(x, NamedSharding(mesh, s)) for x, s in zip(arrays, divided, strict=True)]
        options = {"out_sharding": P()} if is_explicit else {}
        found = jax.jit(lambda *x: both(*x, **options))(A.values, *placed)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-4, err_msg=f"{text} {divided} {semiring}")
