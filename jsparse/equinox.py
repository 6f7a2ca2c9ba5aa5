"""Equinox modules with SparseTensors in files: `tree_serialise_leaves("model.eqx", model)`.

The module needs the extra `jsparse[equinox]`. No other module of jsparse imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import jax
import numpy as np

from jsparse.base.arrays import PyTree
from jsparse.base.dataclass import dataclass
from jsparse.errors import PatternError, shorten
from jsparse.ops.trees import is_tensor
from jsparse.tensor.composed import dynamic_patterns

try:
    import equinox as eqx
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Expected the package equinox for jsparse.equinox, but it is not installed. Install it: "
        "pip install 'jsparse[equinox]'.",
        name=error.name,
    ) from error

__all__ = ["tree_deserialise_leaves", "tree_serialise_leaves"]


def tree_serialise_leaves(
    path_or_file: str | Path | BinaryIO,
    pytree: PyTree,
    filter_spec: PyTree = eqx.default_serialise_filter_spec,
    is_leaf: Callable[[object], bool] | None = None,
) -> None:
    """Save the leaves of a pytree as `equinox.tree_serialise_leaves` does, with a digest before each SparseTensor.

        >>> jsparse.equinox.tree_serialise_leaves("model.eqx", model)

    The only leaf of a static tensor is its values. The digest identifies the pattern to which the values belong, so
    that they are not read into a tensor on a different pattern of equal size. For a dynamic pattern, the digest covers
    shape, format and capacity, because the index arrays are leaves in the file. For a composed tensor it covers the
    formats and the patterns of all parts.

    Args:
        path_or_file: a path, to which ".eqx" is added if it has no suffix, or a binary file.
        pytree: the pytree.
        filter_spec, is_leaf: as in `equinox.tree_serialise_leaves`. They decide how all leaves are written, including
            the leaves of tensors, but not how digests are written.
    """
    eqx.tree_serialise_leaves(path_or_file, _mark_tensors(pytree), jax.tree.map(_writing, filter_spec), is_leaf)


def tree_deserialise_leaves(
    path_or_file: str | Path | BinaryIO,
    like: PyTree,
    filter_spec: PyTree = eqx.default_deserialise_filter_spec,
    is_leaf: Callable[[object], bool] | None = None,
) -> PyTree:
    """Load leaves that `jsparse.equinox.tree_serialise_leaves` saved into a pytree of the same structure.

        >>> model = jsparse.equinox.tree_deserialise_leaves("model.eqx", eqx.filter_eval_shape(Model, key))

    Args:
        path_or_file: a path, to which ".eqx" is added if it has no suffix, or a binary file.
        like: a pytree of the same structure, whose leaves may be shapes. Static tensors in it have the patterns that
            were saved. Dynamic tensors have the shape, format and capacity that were saved, and get the index arrays
            from the file.
        filter_spec, is_leaf: as in `equinox.tree_deserialise_leaves`.

    Raises PatternError for a tensor whose pattern (if dynamic: whose shape, format or capacity) differs from the saved
    one, and for a file without digests, as `equinox.tree_serialise_leaves` writes it; RuntimeError as Equinox does
    for leaves of other shapes and dtypes.
    """
    try:
        spec = jax.tree.map(_reading, filter_spec)
        marked = eqx.tree_deserialise_leaves(path_or_file, _mark_tensors(like), spec, is_leaf)
    except RuntimeError as error:
        cause: BaseException = error  # Equinox raises further errors to name a path
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, PatternError):
            raise cause from None
        raise
    is_marked = lambda x: isinstance(x, _Marked)  # noqa: E731
    return jax.tree.map(lambda x: x.tensor if is_marked(x) else x, marked, is_leaf=is_marked)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A tensor's mark: the digest of its pattern and, for messages, its `repr` and its path in the pytree."""

    digest: str
    tensor: str
    path: str


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True)
class _Marked:
    """A tensor and its `_Mark`. In a file, the digest of the mark comes before the leaves of the tensor."""

    mark: _Mark
    tensor: Any


def _mark_tensors(tree: Any) -> Any:
    def mark(path: Any, x: Any) -> Any:
        if not is_tensor(x):
            return x
        # The digest of a static pattern, or those of the types of a dynamic pattern and its transposed indices, and
        # whether it has parents. That of a composition includes the static patterns, and the types of the dynamic
        # patterns, of its parts.
        derived = (other.type.digest for pattern in dynamic_patterns(x.pattern) for other in pattern.derived)
        rows = ("rows" for pattern in dynamic_patterns(x.pattern) if pattern.parents)
        digest = "-".join([x.pattern.digest, *derived, *rows])
        return _Marked(_Mark(digest, repr(x), jax.tree_util.keystr(path)), x)

    return jax.tree_util.tree_map_with_path(mark, tree, is_leaf=is_tensor)


def _writing(write: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Return a function that writes a leaf of a pytree: the digest of a `_Mark`, and every other leaf by `write`."""

    def write_leaf(file: Any, x: Any) -> None:
        if isinstance(x, _Mark):
            np.save(file, np.array(x.digest))
        else:
            write(file, x)

    return write_leaf


def _reading(read: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function that reads a leaf of a pytree. It checks the digest of a `_Mark`, and reads others by `read`.

    Raises PatternError if the file has no digest for a `_Mark`, or the digest of another pattern.
    """

    def read_leaf(file: Any, x: Any) -> Any:
        if not isinstance(x, _Mark):
            return read(file, x)
        digest = np.load(file)
        if not (isinstance(digest, np.ndarray) and digest.dtype.kind == "U" and digest.ndim == 0):
            raise PatternError(
                f"Expected a digest before the leaves of {x.path}, {x.tensor}, but there is an array of shape "
                f"{np.shape(digest)}: the file holds another pytree, or equinox.tree_serialise_leaves wrote it. Save "
                "it with jsparse.equinox.tree_serialise_leaves."
            )
        if digest.item() != x.digest:
            raise PatternError(
                f"Expected the leaves of {x.path}, {x.tensor} (digest {shorten(x.digest, 24)}), but they were saved "
                f"on another pattern (digest {shorten(digest.item(), 24)}). Load into a tensor on that pattern, then "
                f"move the values: loaded.restrict(A)."
            )
        return x

    return read_leaf
