"""Short forms of the examples that train networks: they learn what they are made for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jsparse


@pytest.mark.parametrize("name", ["GCN", "GAT"])
def test_node_classification(name):
    import node_classification
    from _graph import digits_graph

    data = digits_graph()
    curves, logits = node_classification.train(name, data, 0, epochs=60, progress=False)
    assert curves.shape == (60, 2)
    assert np.mean(logits.argmax(1)[data.test] == data.labels[data.test]) == pytest.approx(curves[-1, 1])
    assert node_classification.accuracy(curves) > 0.9


def graphsage_learns():
    import graphsage

    losses, accuracies = graphsage.train(4, nodes=5_000, progress=False)
    assert losses[-1] < 0.7 * losses[0]
    assert accuracies[-1] > 0.7


def rgcn_learns():
    import rgcn

    curves = rgcn.compare(60, entities=3_000, progress=False)
    assert curves["RGCN"][-1] > 0.7
    assert curves["GCN"][-1] < curves["RGCN"][-1] - 0.2


def sparse_mlp_learns():
    import sparse_mlp

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sparse_mlp, "ROUNDS", 2)
        curves, trained = sparse_mlp.compare(100, progress=False)
    assert min(curve[-1] for curve in curves.values()) > 0.9
    assert [layer.kernel.tensor.nse for layer in trained.layers] == sparse_mlp.sizes(0.95)
    assert sum(sparse_mlp.sizes(0.95)) == pytest.approx(0.05 * sum(a * b for a, b in sparse_mlp.SHAPES), rel=1e-3)


def test_sparse_autoencoder():
    import sparse_autoencoder

    _, found, of_frequencies = sparse_autoencoder.train(6, count=2_000, words=1_000, progress=False)
    assert found[-1] < 0.9 * of_frequencies


def char_transformer_learns():
    import char_transformer

    model, losses, held_out, of_ngrams = char_transformer.train(40, length=512, progress=False)
    assert np.mean(losses[-5:]) < 0.85 * losses[0]
    assert 1 < of_ngrams < 2.5
    assert held_out < 3.2
    codes = jnp.arange(512) % 64
    written = char_transformer.write(model, codes[:-8], 8, jax.random.key(0), temperature=1e-6)
    np.testing.assert_array_equal(written[:-8], codes[:-8])
    np.testing.assert_array_equal(written[-8:], model(written)[-9:-1].argmax(1))
    weights = np.asarray(char_transformer.attention(model, written))
    mask = jsparse.pattern.strided(512, char_transformer.STRIDE)
    seen = np.zeros((512, 512), bool)
    seen[tuple(mask.to_coords())] = True
    assert not weights[:, ~seen].any()
    np.testing.assert_allclose(weights.sum(2), 1, rtol=1e-4)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("learns", [graphsage_learns, rgcn_learns, char_transformer_learns, sparse_mlp_learns])
def test_training(learns):
    """These take the longest."""
    learns()


def test_ngrams():
    import char_transformer

    # of two characters that take turns, the next one is certain but for what the rule gives to unseen ones
    codes = np.tile(np.array([0, 1], np.int32), 500)
    assert char_transformer.ngram_loss(codes, codes[:100], 2) < 0.01
    fair = np.random.default_rng(0).integers(0, 2, 20_000).astype(np.int32)
    assert char_transformer.ngram_loss(fair[:-1000], fair[-1000:], 2) == pytest.approx(np.log(2), abs=0.01)
