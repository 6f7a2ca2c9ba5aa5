import re

import jax
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

SIDE = 6


def test_the_grid_and_its_wall():
    from heat import incidence

    G, wall = incidence(SIDE)
    dense = np.asarray(G.todense())
    assert dense.shape == (2 * SIDE * (SIDE - 1), SIDE**2)
    np.testing.assert_array_equal(np.sort(dense, axis=1)[:, [0, -1]], [[-1, 1]] * len(dense))
    np.testing.assert_array_equal(np.abs(dense).sum(axis=1), 2)
    crossing = np.nonzero(dense[wall])[1].reshape(-1, 2)
    assert len(crossing) == 4
    np.testing.assert_array_equal(crossing % SIDE, [[2, 3]] * 4)


def test_implicit_steps_follow_their_formula():
    from heat import DT, STEPS, incidence, temperatures

    G, wall = incidence(SIDE)
    k = np.where(wall, 0.05, 1).astype(np.float32)
    start = np.random.default_rng(1).normal(size=(2, SIDE**2)).astype(np.float32)
    found = temperatures(G, k, start)
    S = sp.csc_array(G.to_scipy()).astype(np.float64)
    matrix = sp.csc_array(sp.eye_array(SIDE**2) + DT * S.T @ sp.diags_array(k.astype(np.float64)) @ S)
    expected = start.T.astype(np.float64)
    for step in range(STEPS):
        expected = spsolve(matrix, expected)
        np.testing.assert_allclose(found[step], expected.T, atol=1e-4)


def test_gradients_are_differences():
    from heat import incidence, temperatures

    with jax.enable_x64(True):
        G, wall = incidence(SIDE)
        start = np.random.default_rng(1).normal(size=(1, SIDE**2))
        loss = jax.jit(lambda k: (temperatures(G, k, start)[-1] ** 2).sum())
        k, change = np.where(wall, 0.05, 1.0), np.random.default_rng(2).normal(size=len(wall)) * 0.01
        found = jax.grad(loss)(k) @ change
        expected = loss(k + change / 2) - loss(k - change / 2)
        np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_the_whole_program(capsys, tmp_path):
    import heat

    heat.main(["--side", "8", "--rounds", "100", "--output", str(tmp_path / "heat.png")])
    printed = capsys.readouterr().out
    assert "64 nodes, 112 edges, 6 of them cross the wall" in printed
    wall, elsewhere = map(float, re.findall(r"(\d\.\d+) (?:across|elsewhere)", printed))
    assert wall < 0.15
    assert 0.9 < elsewhere < 1.1
    assert (tmp_path / "heat.png").stat().st_size > 1000
