"""Transfer of the moments of an `nnx.Optimizer` when sparse parameters change their patterns."""

from __future__ import annotations

from typing import Any

from flax import nnx

from jsparse.base.arrays import PyTree
from jsparse.errors import PatternError
from jsparse.nnx.param import PREFIX, SparseIndex
from jsparse.ops.trees import move_values
from jsparse.tensor.sparse_tensor import SparseTensor


def restrict_state(optimizer: nnx.Optimizer, old: PyTree, new: PyTree) -> None:
    """Move the moments of dynamic sparse parameters to the parameters' new entries, as `SparseTensor.restrict` does.

        >>> from flax import nnx
        >>> import optax
        >>> layer = jsparse.nnx.SparseLinear(64, 32, density=0.1, dynamic=True, rngs=nnx.Rngs(0))
        >>> optimizer = nnx.Optimizer(layer, optax.adam(1e-3), wrt=nnx.Param)
        >>> old = nnx.clone(layer)
        >>> layer.rewire(jnp.ones((64, 32)), 20)
        >>> jsparse.nnx.restrict_state(optimizer, old, layer)

    Moments are arrays with a number for each stored entry. An nnx.Optimizer does not know where entries are. If the
    pattern changed, it would use moments that belong to other entries. New entries get moments of 0. The function may
    be called inside nnx.jit.

    Args:
        optimizer: an nnx.Optimizer with any Optax transformation. Its state is changed.
        old: the model before its entries moved: a clone, or a state.
        new: the model now.

    Raises PatternError if the sparse parameters of the two models have different names.
    """
    before, after = _tensors(old), _tensors(new)
    if before.keys() != after.keys():
        raise PatternError(
            "Expected one model before and after its entries moved, but the dynamic sparse parameters are "
            f"{sorted(before)} and {sorted(after)}. Pass a clone of the model that you made before its entries moved."
        )
    moments = dict(nnx.to_flat_state(nnx.state(optimizer, nnx.OptState)))
    for path, variable in moments.items():
        name = next((name for name in before if path[-len(name) :] == name), None)
        if name is not None and variable.shape[-1:] == before[name].values.shape:
            variable[...] = move_values(variable[...], before[name], after[name])
    nnx.update(optimizer, nnx.from_flat_state(moments))


def _tensors(model: Any) -> dict[tuple[Any, ...], SparseTensor]:
    """The dynamic tensors of a model, by the paths of their values."""
    state = model if isinstance(model, nnx.State) else nnx.state(model)
    flat = dict(nnx.to_flat_state(state))
    patterns = {path[:-1]: variable for path, variable in flat.items() if isinstance(variable, SparseIndex)}
    return {
        path: SparseTensor._wrap(variable[...], patterns[path[:-1]].get_value())
        for path, variable in flat.items()
        if path[:-1] in patterns and str(path[-1]).startswith(PREFIX)
    }
