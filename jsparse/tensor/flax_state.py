"""State dicts of tensors for `flax.serialization`: the leaves, and a digest of the metadata that they belong to."""

from __future__ import annotations

from typing import Any

import jax

from jsparse.errors import PatternError, represented
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.leaves import check_batched_leaves
from jsparse.tensor.patterned import Valued

__all__ = ["from_state", "to_state"]


def to_state(tensor: Valued) -> dict[str, Any]:
    """The state of a tensor: its values, the digest of its pattern, and the index arrays of a dynamic pattern."""
    values, *arrays = jax.tree.leaves(_ordinary(tensor), is_leaf=lambda x: x is None)
    indices = {str(n): array for n, array in enumerate(arrays)}
    return {"values": values, "pattern": tensor.pattern.digest, **({"arrays": indices} if indices else {})}


def from_state(target: Valued, state: Any) -> Valued:
    """A tensor with the leaves of a state, and the metadata of `target`.

    Raises PatternError if the state is that of a tensor with other metadata: another static pattern, or a dynamic one
    of other shape, format, nse or number of index arrays; LeafError if leaves do not fit.
    """
    leaves, tree = jax.tree.flatten(_ordinary(target), is_leaf=lambda x: x is None)
    expected = {"values", "pattern", *(["arrays"] if len(leaves) > 1 else [])}
    if not isinstance(state, dict) or set(state) != expected:
        found = sorted(map(str, state)) if isinstance(state, dict) else state
        raise PatternError(
            f"Expected the state of {target!r}, a dict of {', '.join(sorted(expected))}, but got {represented(found)}."
        )
    arrays = state.get("arrays", {})
    if state["pattern"] != target.pattern.digest or set(arrays) != {str(n) for n in range(len(leaves) - 1)}:
        raise PatternError(
            f"Expected the state of a tensor on {target.pattern!r} (digest {target.pattern.digest[:12]}), but it was "
            f"saved on another pattern (digest {represented(state['pattern'], 12)}). Restore into a tensor on that "
            f"pattern, then move the values: saved.restrict(A)."
        )
    restored: Valued = jax.tree.unflatten(tree, [state["values"], *(arrays[str(n)] for n in range(len(leaves) - 1))])
    check_batched_leaves(restored, "the restored tensor")
    return restored


def _ordinary(tensor: Valued) -> Valued:
    """The tensor without the mark of a gradient, which is not written."""
    if not isinstance(tensor.pattern, DynamicPattern):
        return tensor
    return tensor._unchecked(tensor.values, tensor.pattern.ordinary())
