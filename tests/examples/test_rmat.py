"""The random graph, the parts of its matrix, and PageRanks."""

import re

import numpy as np


def test_the_graph_is_symmetric_with_more_edges_at_low_numbers():
    from rmat import rmat

    dense = np.asarray(rmat(8, 1).todense())
    np.testing.assert_array_equal(dense, dense.T)
    assert set(np.unique(dense)) == {0, 1}
    quarters = dense.reshape(2, 128, 2, 128).mean((1, 3))
    assert quarters[0, 0] > quarters[0, 1] > quarters[1, 1]


def test_pagerank_is_the_stationary_distribution():
    from rmat import pagerank, rmat

    A = rmat(6, 2)
    dense = np.asarray(A.todense(), np.float64)
    degrees = dense.sum(0)
    steps = np.where(degrees > 0, dense / np.maximum(degrees, 1), 1 / 64)
    expected = np.linalg.solve(np.eye(64) - 0.85 * steps, np.full(64, 0.15 / 64))
    np.testing.assert_allclose(pagerank(A, degrees.astype(np.float32)), expected, rtol=1e-3)


def test_tiles_count_entries():
    from rmat import tiles

    coords = np.array([[0, 0, 1, 3], [0, 1, 1, 2]])
    np.testing.assert_allclose(tiles(coords, np.array([0, 1, 4])), [[1, 1 / 3], [0, 2 / 9]])


def test_the_whole_program(capsys, tmp_path):
    import rmat

    assert rmat.main(["--scale", "11", "--output", str(tmp_path / "rmat.png")]) == 0
    printed = capsys.readouterr().out
    assert "2,048 nodes" in printed
    stored = [int(count.replace(",", "")) for count in re.findall(r"(\S+) entries, +\S+ MB", printed)]
    assert len(stored) == 3
    assert min(stored) > 0
    assert (tmp_path / "rmat.png").stat().st_size > 1000
