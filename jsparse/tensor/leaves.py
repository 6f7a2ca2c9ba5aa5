"""Objects with a pattern, and checks that their leaves fit it.

JAX flattens a pytree, maps over its leaves and unflattens it. The new leaves may be anything: tracers, shapes,
sentinels, arrays of another length. So unflattening checks nothing. The first operation on a tensor checks presence,
rank, shape and dtype of its leaves, while tracing, so compiled programs pay nothing. A change that keeps all of these
goes unnoticed: kernels stay inside their buffers whatever the index arrays hold, but they compute another result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Self, TypeAlias, TypeVar

import jax
import numpy as np

from jsparse._compat import is_closed_over
from jsparse.base.arrays import Array, check_alive, is_deleted, is_number, jax_array, raw_bytes
from jsparse.errors import DTypeError, LeafError, ShardingError, describe_type
from jsparse.formats import Format, Pattern
from jsparse.formats.dynamic import index_operands
from jsparse.formats.pattern import hash_arrays
from jsparse.tensor.dynamic_pattern import DynamicPattern


class Patterned:
    """Base of objects with a `pattern`, which holds the coordinates of the stored entries."""

    __slots__ = ()
    pattern: Pattern | DynamicPattern

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension.

        >>> A.shape
        (1000, 800)
        """
        return self.pattern.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions.

        >>> A.ndim
        2
        """
        return self.pattern.ndim

    @property
    def format(self) -> Format:
        """The format of the pattern.

        >>> A.format.name
        'csr'
        """
        return self.pattern.format

    @property
    def nse(self) -> int:
        """The number of slots; for a dynamic pattern, its capacity.

        >>> A.nse == A.values.shape[0]
        True
        """
        return self.pattern.nse


class Valued(Patterned):
    """Base of objects that have values on their pattern, one for each slot."""

    __slots__ = ()
    values: jax.Array

    @classmethod
    def _wrap(cls, values: Array, pattern: Pattern | DynamicPattern) -> Self:
        """Make an object without checks: JAX's transformations also put tracers, shapes and sentinels into pytrees."""
        raise NotImplementedError


T = TypeVar("T", bound=Valued)
Name: TypeAlias = str | Callable[[], str]
"""The name of a tensor in messages, or a function that formats it in case of an error, so that other calls are fast."""


def with_sound_leaves(tensor: T, name: Name) -> T:
    """Check the leaves of a tensor. Returns the tensor, with values that are a jax array.

    Raises LeafError if a leaf is missing, or does not have the shape and dtype that the pattern requires.
    """
    check_leaves(tensor, name)
    values: object = tensor.values
    if type(values) is not np.ndarray:
        return tensor
    values = jax_array(values, f"the values of {_text(name)} to be numbers")
    return type(tensor)._wrap(values, tensor.pattern)


def check_leaves(tensor: object, name: Name, tangents: bool = False) -> None:
    """Raise LeafError if the leaves do not fit the tensor's pattern. The message names tensor and likely cause.

    `tangents` also allows a tangent, whose pattern has no index arrays, for operations that read only values. Raises
    DTypeError for an operand that is not a tensor.
    """
    if not isinstance(tensor, Valued):
        what = name() if callable(name) else name
        raise DTypeError(
            f"Expected a SparseTensor as {what}, but got {describe_type(tensor)}. Make one with jsparse.asarray(x)."
        )
    if type(tensor.pattern) is not Pattern:
        _check_arrays(tensor, name, (), tangents)
    check_values(tensor, name)


def check_batched_leaves(tensor: Valued, name: Name, tangents: bool = False) -> tuple[int, ...]:
    """Check leaves as `check_leaves` does, but allow leading batch axes.

    Returns the sizes of the batch axes, which all leaves share.
    """
    lead = tuple(getattr(tensor.values, "shape", ()))[:-1]
    _check_arrays(tensor, name, lead, tangents)
    _check_values(tensor, name, (*lead, tensor.pattern.nse))
    return lead


def checksum(tensor: Valued) -> str | None:
    """Return a digest of the leaves, their dtypes and shapes, or None if a leaf is not a concrete array."""
    pattern = tensor.pattern
    leaves = [tensor.values, *pattern.operands()]
    if not all(isinstance(leaf, jax.Array | np.ndarray) for leaf in leaves):
        return None
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return None
    digest = hashlib.sha256()
    for leaf in leaves:
        weak = getattr(leaf, "weak_type", False)
        digest.update(f"{leaf.dtype.name} {leaf.shape} {weak} ".encode())
        digest.update(hash_arrays((raw_bytes(leaf),)))
    return digest.hexdigest()


def check_pattern(tensor: Patterned, name: Name, tangents: bool = False) -> None:
    """Check the leaves of a pattern only, for operations that read no values."""
    _check_arrays(tensor, name, (), tangents)


def _check_arrays(tensor: Patterned, name: Name, lead: tuple[int, ...], tangents: bool = False) -> None:
    pattern: object = tensor.pattern
    if hasattr(pattern, "parts"):  # a composition, whose module imports this one
        for number, part in enumerate(pattern.parts):
            of_part = f" of part {number}" if len(pattern.parts) > 1 else ""
            _check_index(part.pattern, of_part, tensor, name, lead, tangents)
        return
    _check_index(pattern, "", tensor, name, lead, tangents)


def _check_index(
    pattern: object, of_part: str, tensor: Patterned, name: Name, lead: tuple[int, ...], tangents: bool
) -> None:
    """Check the leaves of the pattern of a tensor, or of one of its parts."""
    if isinstance(pattern, Pattern):
        return
    if not isinstance(pattern, DynamicPattern):
        advice = f"{_MAPPED} Map over A.values only."
        raise LeafError(
            f"Expected {_text(name)} to be a SparseTensor with a pattern, but its pattern is "
            f"{describe_type(pattern)}. {advice}"
        )
    type_ = pattern.type
    dtype, lengths = type_.index_dtype, type_.array_lengths
    if not (pattern.derived or pattern.parents) and all(
        _is_array(array)
        and array.shape == (*lead, length)
        and array.dtype == dtype
        and not (is_deleted(array) or is_closed_over(array))
        for array, length in zip(pattern.arrays, lengths, strict=True)
    ):
        return  # the common case, for which no descriptions are made
    expected = index_operands(pattern.type, pattern.derived_types, pattern.has_parents)
    for array, (what, length, dtype) in zip(pattern.operands(), expected, strict=True):
        check_passed(array, partial(_leaf, tensor, name, what + of_part))
        if not (_is_array(array) and array.shape == (*lead, length) and array.dtype == dtype):
            if tangents and pattern.is_tangent:
                return
            raise LeafError(_misfit(tensor, name, what + of_part, array, (*lead, length), dtype.name))


def check_values(tensor: Valued, name: Name) -> None:
    """Raise LeafError unless a tensor has one number for each slot."""
    _check_values(tensor, name, (tensor.pattern.nse,))


def _check_values(tensor: Valued, name: Name, shape: tuple[int, ...]) -> None:
    values = tensor.values
    fits = _is_array(values) and values.shape == shape and _is_numeric(values.dtype)
    if fits and not (is_deleted(values) or is_closed_over(values)):
        return  # the common case, for which no descriptions are made
    check_passed(values, partial(_leaf, tensor, name, "values"))
    if not fits:
        raise LeafError(_misfit(tensor, name, "values", values, shape, "numbers"))


def check_passed(x: object, name: Name) -> None:
    """Raise DeletedArrayError for an array without memory, ShardingError for one that a program cannot close over."""
    check_alive(x, name)
    if is_closed_over(x):
        raise ShardingError(
            f"Expected {_text(name)} as an argument of the function under jax.jit, because its elements are on the "
            "devices of several processes, but the function closes over it. Pass it to the function as an argument."
        )


_array_types: set[type] = {np.ndarray}  # known array classes: a set lookup takes a tenth of isinstance(x, jax.Array)


def _is_array(x: object) -> bool:
    if type(x) in _array_types:
        return True
    if not isinstance(x, jax.Array):
        return False
    _array_types.add(type(x))
    return True


@lru_cache(maxsize=64)
def _is_numeric(dtype: Any) -> bool:
    """Whether a dtype is numeric or bool, in this machine's byte order."""
    return is_number(dtype) and bool(dtype.isnative)


_MAPPED = "A function that jax.tree.map applied to its leaves, or an optimizer or a filter, replaced it."


def _text(name: Name) -> str:
    return name if isinstance(name, str) else name()


def _misfit(tensor: Patterned, name: Name, what: str, leaf: Any, shape: tuple[int, ...], dtype: str) -> str:
    kind = "None" if leaf is None else type(leaf).__name__
    if _is_array(leaf):
        kind = f"{leaf.dtype} of shape {leaf.shape}"
    return (
        f"Expected {_leaf(tensor, name, what)}, to be {dtype} of shape {shape}, but got {kind}. "
        f"{_cause(what == 'values', leaf, shape)}"
    )


def _leaf(tensor: Patterned, name: Name, what: str) -> str:
    kept = f"{'x'.join(map(str, tensor.shape))} tensor in {tensor.pattern.format.name} with nse={tensor.pattern.nse:,}"
    return f"the {what} of {_text(name)}, a {kept}"


def _cause(is_values: bool, leaf: Any, shape: tuple[int, ...]) -> str:
    """Explain why a leaf probably does not fit, and what to do about it."""
    if getattr(leaf, "dtype", None) == jax.dtypes.float0:
        return (
            "It is a gradient of integers. Use jsparse.grad, which differentiates only the values. A tangent dA in "
            "jax.jvp, or in a rule of jax.custom_jvp, has the entries of its primal: A.with_values(dA.values)."
        )
    if leaf is None and not is_values:
        return (
            "It is the part of a tensor that holds its values, such as a gradient from equinox.filter_grad, or one "
            "half from equinox.partition: A.with_values(part.values) has the entries of A, jsparse.grad gives whole "
            "tensors, and equinox.combine joins the halves."
        )
    if not _is_array(leaf):
        return f"{_MAPPED} Leaves have to be arrays when the tensor is used."
    if leaf.ndim > len(shape) and leaf.shape[leaf.ndim - len(shape) :] == shape:
        return (
            "Tensors were stacked, or an axis was added: map over the leading axis with jax.vmap, or take one tensor "
            "with jax.tree.map(lambda leaf: leaf[0], tensor). A Jacobian from jax.jacfwd has the axes of the argument "
            "last: jax.vmap(f, in_axes=-1)."
        )
    if leaf.ndim > len(shape) and leaf.shape[: len(shape)] == shape:
        return (
            "It may be a Jacobian from jax.jacfwd, with the axes of the argument after the axis of the entries: map "
            "over each of them, jax.vmap(f, in_axes=-1)."
        )
    if is_values and leaf.ndim < len(shape):
        return (
            "jax.vmap or a loop mapped over the values, which are the only leaf of a static tensor. Map over values on "
            "one pattern, jax.vmap(lambda v: A.with_values(v) @ x)(V), or over stacked dynamic tensors."
        )
    if leaf.shape != shape:
        return (
            "A function that jax.tree.map applied to its leaves changed their shape, or a shard of them came without "
            "its pattern. Index the tensor itself, A[:3], or replace its values with A.with_values(x)."
        )
    if is_values:
        return "Values are numbers or booleans in the machine's byte order: cast them."
    return (
        "All leaves were cast, averaged or stepped, index arrays among them: map over the values alone, "
        "A.with_values(f(A.values)) or A.astype(dtype), and take gradients with jsparse.grad."
    )
