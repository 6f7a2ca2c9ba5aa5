"""`fuse` of random chains against the chains themselves, with all derivatives and batches."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from fusion.chains import RandomChain, random_chain
from fusion.measure import arrays_of_entries, check_close, compiled, is_one_chain, kernel_count
from programs.amount import amount

from jsparse.ops.fuse import fuse

CHAINS = amount(16, 100)


def loss(f: Any) -> Any:
    """A smooth number of all results."""

    def summed(x: Any, tensors: Any) -> Any:
        finite = [jnp.where(jnp.isfinite(y), y, 0).astype(float) for y in f(x, tensors)]
        return sum((y**2).sum() for y in finite)

    return summed


def everything(f: Any, chain: RandomChain, number: int) -> Any:
    """A function that computes the results and gradients of `f`, and for some numbers more."""

    def computed(x: Any, tensors: Any) -> Any:
        found = [f(x, tensors), jax.grad(loss(f))(x, tensors)]
        if number % 4 == 1:
            found.append(jax.jvp(lambda x: f(x, tensors), (x,), (jax.tree.map(jnp.cos, x),)))
        if number % 4 == 2:
            name = min(x)
            both = jnp.stack([x[name], x[name] * 0.5])
            found.append(jax.vmap(lambda own: f({**x, name: own}, tensors))(both))
        if number % 8 == 3 and chain.smooth:
            slope = jax.grad(loss(f))
            found.append(jax.grad(lambda x: sum((g.astype(float) ** 2).sum() for g in slope(x, tensors).values()))(x))
        return found

    return jax.jit(computed)


@pytest.mark.parametrize("first", range(0, CHAINS, 10))
def test_random_chains(first: int) -> None:
    for number in range(first, first + 10):
        chain = random_chain(0, number)
        with jax.enable_x64(True):
            x, exact = chain.operands(chain.dtype), chain.operands("float64")
            found = everything(fuse(chain.__call__), chain, number)(x, chain.tensors)
            plain = everything(chain.__call__, chain, number)
            check_close(found, plain(x, chain.tensors), plain(exact, chain.tensors), chain.dtype, chain.text)


def test_chains_are_one_kernel_without_arrays_of_entries() -> None:
    counts = {"fused": 0, "one chain": 0, "no entries": 0}
    for number in range(40):
        chain = random_chain(1, number)
        with jax.enable_x64(True):
            operands = (chain.operands(chain.dtype), chain.tensors)
            fused, plain = compiled(fuse(chain.__call__), *operands), compiled(chain.__call__, *operands)
            one = is_one_chain(chain.__call__, *operands)
        assert kernel_count(fused) <= kernel_count(plain), chain.text
        counts["fused"] += kernel_count(fused) < kernel_count(plain)
        if one:
            counts["one chain"] += 1
            assert kernel_count(fused) == 1, chain.text
            if not chain.has_entries and not any(tensor.is_dynamic for tensor in chain.tensors):
                counts["no entries"] += 1
                assert not arrays_of_entries(fused, chain.counts), chain.text
    assert counts["fused"] >= 30, counts
    assert counts["one chain"] >= 6, counts
    assert counts["no entries"] >= 3, counts
