"""What pages promise, checked on the names that their code defines."""

import jax.numpy as jnp
import numpy as np
from docs.pages import ROOT

__all__ = ["CHECKS"]


def decoding(given):
    """The model writes the text that it was trained on."""
    assert given["tokens"].shape == (2, 50)
    for row, start in enumerate((0, 7)):
        assert "".join(given["letters"][given["tokens"][row]]) == given["text"][start : start + 50]


def pruning(given):
    """Summaries, accuracies and sizes, and the same layer by Linen."""
    from jsparse.nnx import prune_model

    text = (ROOT / "docs/how_to/pruning.md").read_text(encoding="utf-8")
    of_model = prune_model(given["model"], 0.95, where=lambda path, _: 4 not in path)[1]
    of_network = prune_model(given["network"], lambda path, _: 0.95 if path[-1] == "kernel" else 0.8)[1]
    for line in f"{of_model}\n{of_network}".splitlines():
        assert f"    {line}\n" in text
    assert min(given["dense_accuracy"], given["pruned_accuracy"]) > 0.96
    assert given["without"] < given["pruned_accuracy"]
    assert given["accuracy"] > 0.9
    assert [layer.kernel.tensor.nse for layer in given["gradual"].layers if hasattr(layer, "rewire")] == [328, 1311]
    assert given["sizes"]["pruned"] < 0.2 * given["sizes"]["dense"]
    params = given["params"]
    kernel = params["layer_0"]["kernel"]
    kept = jnp.where(jnp.abs(kernel) >= jnp.sort(jnp.abs(kernel).ravel())[-1_600], kernel, 0)
    dense = {**params, "layer_0": {**params["layer_0"], "kernel": kept}}
    expected = given["Mlp"]().apply({"params": dense}, given["x"])
    np.testing.assert_allclose(given["logits"], expected, 1e-4, 1e-4)


CHECKS = {"docs/how_to/decoding.md": decoding, "docs/how_to/pruning.md": pruning}
