"""Find the conductivities of a plate from temperatures, by gradients through implicit time steps.

    python examples/heat.py

Heat flows along the edges of a grid. An implicit step of length dt solves (I + dt L) u' = u, L = Gᵀ diag(k) G, with the
signed incidence matrix G (edges, nodes) and one conductivity k for each edge. A sparse einsum assembles the matrix,
conjugate gradients solve the step, and JAX differentiates all of it with respect to k. A wall of low conductivity is
hidden in the plate. The program finds it from the temperatures of a few simulated experiments.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.sparse as sp
from jax.scipy.sparse.linalg import cg

import jsparse

DT, STEPS, EXPERIMENTS = 0.5, 4, 6


def incidence(side: int) -> tuple[jsparse.SparseTensor, np.ndarray]:
    """G (edges, nodes) of a square grid, and a mask of the edges that cross the wall.

    G is -1 where an edge begins and 1 where it ends.
    """
    node = np.arange(side * side).reshape(side, side)
    begin = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    end = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    edges = np.arange(len(begin))
    coords = np.stack([np.tile(edges, 2), np.concatenate([begin, end])])
    signs = np.repeat(np.array([-1.0, 1.0], np.float32), len(edges))
    wall = (begin % side == side // 2 - 1) & (end % side == side // 2) & (begin // side < 3 * side // 4)
    return jsparse.SparseTensor.from_coords(coords, signs, (len(edges), side * side), "csr"), wall


def temperatures(G: jsparse.SparseTensor, conductivity: jax.Array, start: jax.Array) -> jax.Array:
    """The temperatures (steps, experiments, nodes) after each step, from those at the `start` (experiments, nodes)."""
    identity = jsparse.asarray(sp.eye_array(G.shape[1], dtype=np.float32), format="csr")
    matrix = identity + DT * jsparse.einsum("eu,e,ev->uv", G, conductivity, G)

    def step(u: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        u = jax.vmap(lambda b: cg(matrix, b, tol=1e-6)[0])(u)
        return u, u

    return jax.lax.scan(step, start, length=STEPS)[1]


def search(G: jsparse.SparseTensor, start: jax.Array, measured: jax.Array, rounds: int) -> tuple[jax.Array, jax.Array]:
    """Fit conductivities to the measurements by Adam on their logarithms. Returns them and the loss of each round."""
    optimizer = optax.adam(0.1)

    def loss(log_k: jax.Array) -> jax.Array:
        return ((temperatures(G, jnp.exp(log_k), start) - measured) ** 2).sum()

    def one_round(state: tuple, _: None) -> tuple[tuple, jax.Array]:
        log_k, moments = state
        value, gradient = jax.value_and_grad(loss)(log_k)
        updates, moments = optimizer.update(gradient, moments)
        return (optax.apply_updates(log_k, updates), moments), value

    first = jnp.full(G.shape[0], -0.5)
    (log_k, _), losses = jax.jit(lambda s: jax.lax.scan(one_round, s, length=rounds))((first, optimizer.init(first)))
    return jnp.exp(log_k), losses


def main(side: int = 16, rounds: int = 150) -> None:
    G, wall = incidence(side)
    start = jnp.asarray(np.random.default_rng(0).normal(size=(EXPERIMENTS, G.shape[1])).astype(np.float32))
    measured = temperatures(G, jnp.where(wall, 0.05, 1.0), start)
    found, losses = search(G, start, measured, rounds)
    print(f"{G.shape[1]} nodes, {G.shape[0]} edges, {wall.sum()} of them cross the wall")
    print(f"misfit {losses[0]:.3g} at the start, {losses[-1]:.3g} at the end")
    print(f"median conductivity {np.median(found[wall]):.3f} across the wall (truth 0.050), ", end="")
    print(f"{np.median(found[~wall]):.3f} elsewhere (truth 1.000)")


if __name__ == "__main__":
    main()
