"""A random chain, fused, against the chain itself, with derivatives and batches."""

from typing import Any

import jax
import jax.numpy as jnp
from fusion.chains import RandomChain
from fusion.measure import check_close

from jsparse.ops.fuse import fuse


def check_chain(chain: RandomChain, number: int) -> None:
    """Compare results and gradients, and more for some numbers. The chain in float64 says how large errors may be."""
    with jax.enable_x64(True):
        x, exact = chain.operands(chain.dtype), chain.operands("float64")
        found = everything(fuse(chain.__call__), chain, number)(x, chain.tensors)
        plain = everything(chain.__call__, chain, number)
        check_close(found, plain(x, chain.tensors), plain(exact, chain.tensors), chain.dtype, chain.text)


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
