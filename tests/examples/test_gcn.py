import functools

import numpy as np
import pytest
import scipy.sparse as sp

NODES = 40


@pytest.fixture
def arrays():
    """A ring of nodes of two classes, most of whose features equal the class."""
    labels = (np.arange(NODES) >= NODES // 2).astype(np.int32)
    ring = sp.csr_array((np.ones(NODES), (np.arange(NODES), (np.arange(NODES) + 1) % NODES)), shape=(NODES, NODES))
    features = sp.csr_array(np.eye(6)[labels * 3 + np.arange(NODES) % 3] + np.eye(6)[np.arange(NODES) % 6])
    return {
        "indptr": ring.indptr,
        "indices": ring.indices,
        "x_indptr": features.indptr,
        "x_indices": features.indices,
        "x_data": features.data,
        "x_shape": np.array(features.shape),
        "labels": labels,
        "train": np.array([2, 5, 25, 30]),
        "val": np.array([7, 9, 33]),
        "test": np.array([11, 13, 35]),
    }


def saved(tmp_path, arrays):
    path = tmp_path / "ring.npz"
    np.savez(path, **arrays)
    return path


def test_digits_graph_is_symmetric_and_its_parts_are_disjoint():
    from _graph import digits_graph

    graph = digits_graph(seed=3)
    assert graph.adjacency.shape == (1797, 1797)
    assert (graph.adjacency != graph.adjacency.T).nnz == 0
    assert np.all(graph.adjacency.diagonal() == 0)
    assert set(graph.adjacency.data) == {1.0}
    assert np.all(np.bincount(graph.labels[graph.train]) == 10)
    assert sorted(np.concatenate([graph.train, graph.val, graph.test])) == list(range(1797))


def test_digits_graph_depends_on_the_seed_only():
    from _graph import digits_graph

    assert np.array_equal(digits_graph(1).train, digits_graph(1).train)
    assert not np.array_equal(digits_graph(1).train, digits_graph(2).train)


def test_load_graph_symmetrises_and_normalises(tmp_path, arrays):
    from _graph import load_graph

    graph = load_graph(saved(tmp_path, arrays))
    assert (graph.nodes, graph.classes, graph.adjacency.nnz) == (NODES, 2, 2 * NODES)
    assert np.allclose(graph.features.sum(axis=1), 1)


def test_normalized_follows_its_formula(tmp_path, arrays):
    from _graph import load_graph, normalized

    adjacency = load_graph(saved(tmp_path, arrays)).adjacency
    looped = adjacency.toarray() + np.eye(NODES)
    scale = looped.sum(axis=1) ** -0.5
    assert np.allclose(normalized(adjacency).toarray(), scale[:, None] * looped * scale, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": None}, "lacks the arrays labels"),
        ({"indices": np.full(NODES, NODES)}, "malformed matrix"),
        ({"x_indptr": np.array([0, 1])}, "malformed matrix"),
        ({"x_shape": np.array(6)}, "malformed matrix"),
        ({"labels": np.zeros(NODES)}, "labels must be"),
        ({"train": np.array([NODES])}, "train must hold node ids"),
        ({"val": np.array([], int)}, "val must hold node ids"),
    ],
)
def test_a_bad_file_is_one_line_of_error(tmp_path, arrays, capsys, change, message):
    import gcn

    changed = {key: value for key, value in (arrays | change).items() if value is not None}
    assert gcn.main(["--data", str(saved(tmp_path, changed))]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("content", [None, b"", b"not a zip file"])
def test_a_file_of_another_kind_is_one_line_of_error(tmp_path, capsys, content):
    import gcn

    path = tmp_path / "graph.npz"
    if content is not None:
        path.write_bytes(content)
    assert gcn.main(["--data", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_few_epochs_reduce_the_loss_on_digits():
    import gcn

    curves = gcn.train(gcn.digits_graph(), epochs=12, progress=False)
    assert curves.loss.shape == curves.val.shape == (12,)
    assert curves.loss[-1] < 0.9 * curves.loss[0]
    assert curves.test[-1] > 0.5


def test_sparse_features_learn_as_dense_ones_do(tmp_path, arrays):
    import dataclasses

    import gcn

    graph = gcn.load_graph(saved(tmp_path, arrays))
    dense = dataclasses.replace(graph, features=graph.features.toarray())
    params = gcn.initial(gcn.jax.random.key(0), 6, 8, 2)
    assert np.allclose(
        gcn.forward(params, gcn.prepare(graph)), gcn.forward(params, gcn.prepare(dense)), rtol=1e-4, atol=1e-5
    )
    curves = gcn.train(graph, epochs=30, hidden=8, progress=False)
    assert curves.loss[-1] < curves.loss[0]


def test_the_whole_program(tmp_path, arrays, capsys, monkeypatch):
    import gcn

    monkeypatch.setattr(gcn, "aggregation_times", functools.partial(gcn.aggregation_times, seconds=0))
    figure = tmp_path / "figure.png"
    data = str(saved(tmp_path, arrays))
    assert gcn.main(["--data", data, "--epochs", "3", "--hidden", "4", "--output", str(figure)]) == 0
    printed = capsys.readouterr().out
    for part in ("test accuracy", "The plan", "jsparse", "scipy", "BCOO", "jax dense"):
        assert part in printed
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_a_figure_that_cannot_be_written_is_an_error(tmp_path, arrays, capsys, monkeypatch):
    import gcn

    monkeypatch.setattr(gcn, "aggregation_times", lambda *_: "")
    data = str(saved(tmp_path, arrays))
    assert gcn.main(["--data", data, "--epochs", "1", "--output", str(tmp_path / "absent" / "a.png")]) == 1
    assert "cannot be written" in capsys.readouterr().err
