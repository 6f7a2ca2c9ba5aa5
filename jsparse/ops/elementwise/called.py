"""Functions of several operands, with numpy's broadcasting and meaning: maximum, where, comparisons, bitwise functions.

If all tensors store the same entries, the function maps their values. Otherwise it maps the values on a pattern that is
joined from theirs: the points where the function may differ from 0. The function's value where only some operands store
an entry says which points these are (`notation.background`): a maximum has the union of two patterns, & the
intersection, and `where(condition, x, y)` the entries that condition and x store, and those of y.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from operator import eq
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array, check_python_int, jax_array
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import DTypeError, shorten
from jsparse.notation import Access, Product, Statement
from jsparse.notation.background import ABSENT, UNKNOWN, Background, background, dense_background, is_zero
from jsparse.ops.aligned import (
    Sets,
    call_function,
    join_patterns,
    of_numbers,
    poison_if_overflowed,
    row_of,
    same_pattern,
    smallest_sets,
    values_at,
)
from jsparse.ops.elementwise.broadcast import common_shape, drop_repeated
from jsparse.ops.elementwise.map import map_values, on_one_pattern
from jsparse.planning.planned import as_operand, plan_statement
from jsparse.tensor.entrywise import jit_map
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

NAMES = "ABC"


def apply_elementwise(
    function: str, what: str, operands: Sequence[Any], advice: Callable[[], str] = str
) -> SparseTensor | jax.Array:
    """Apply an elementwise function to tensors, arrays and numbers, with numpy's broadcasting and meaning.

    The result is a SparseTensor if it is known to be 0 wherever the tensors store nothing. It then stores the entries
    where it may differ from 0. Otherwise the result is an array, if an operand is an array of its shape. Without
    SparseTensors, the function of JAX is called.

    Args:
        function: a name of `FUNCTIONS` or `COMPARISONS`.
        what: the call, for messages.
        advice: a function that returns a sentence on what to do if the result would be dense.

    Raises PatternError if the result would be dense and larger than any operand, ShapeError if shapes do not broadcast,
    DTypeError if the function takes integers and an operand has others.
    """
    row = row_of(function)
    if row.takes_integers:
        _check_integers(what, operands)
    if row.is_zero_at_zero and all(isinstance(x, SparseTensor) for x in operands):
        first, *others = operands
        if all(on_one_pattern(first, x) for x in others):
            return map_values(row.function, what, *operands)
    converted = [_operand(x, what) for x in operands]
    tensors = [x for x in converted if isinstance(x, SparseTensor)]
    if not tensors:
        return row.function(*converted)
    # Read from the operands as they were passed: an array that is converted in a traced program is not known.
    numbers = [
        ABSENT if isinstance(x, SparseTensor) else number_or_unknown(y)
        for x, y in zip(converted, operands, strict=True)
    ]
    first, *others = tensors
    is_small = all(isinstance(x, SparseTensor | int | float | complex) for x in converted)
    is_on_one = all(on_one_pattern(first, x) for x in others)
    shape = first.shape if is_small and is_on_one else common_shape(what, *map(_shape, converted))
    at_nothing = _background(function, tuple(numbers))
    if is_zero(at_nothing) and is_on_one and first.shape == shape:
        return map_values(row.function, what, *converted)
    if is_zero(at_nothing):
        # A tensor that is repeated along all dimensions is one number for all points, like a scalar array.
        is_number = [isinstance(x, SparseTensor) and not any(map(eq, x.shape[::-1], shape[::-1])) for x in converted]
        numbers = [UNKNOWN if alone else number for alone, number in zip(is_number, numbers, strict=True)]
        at_nothing = _background(function, tuple(numbers))
        if is_zero(at_nothing):
            aligned = [x.todense().reshape(()) if alone else x for alone, x in zip(is_number, converted, strict=True)]
            return _apply_on_union(function, what, aligned, numbers, shape)
    if is_small or not any(_shape(x) == shape for x in converted if not isinstance(x, SparseTensor)):
        raise dense_background(what, at_nothing, advice() + _cause(converted, numbers), shape)
    return row.function(*(x.todense() if isinstance(x, SparseTensor) else x for x in converted))


def _apply_on_union(
    function: str, what: str, operands: Sequence[Any], numbers: Sequence[Background], shape: tuple[int, ...]
) -> SparseTensor:
    """Apply a function, which is 0 where nothing is stored, to operands that broadcast to `shape`."""
    names = tuple(f"i{n}" for n in range(len(shape)))
    sizes = dict(zip(names, shape, strict=True))
    patterns: list[tuple[Any, tuple[str, ...]]] = []  # the different ones, with their index variables
    keys: list[int | None] = []  # for each operand, the number of its pattern
    aligned = []
    for name, operand in zip(NAMES, operands, strict=False):
        x, own = drop_repeated(operand, names, shape) if _shape(operand) else (operand, ())
        aligned.append((name, x, own))
        key = None
        if isinstance(x, SparseTensor):
            as_operand(x, partial("{} of '{}'".format, name, what), what)
            equal = (n for n, (pattern, of) in enumerate(patterns) if of == own and same_pattern(pattern, x.pattern))
            key = next(equal, len(patterns))
            patterns[key:] = patterns[key:] or [(x.pattern, own)]
        keys.append(key)
    supports = _supports(function, tuple(keys), tuple(numbers))
    sets = tuple(tuple(patterns[n] for n in sorted(chosen)) for chosen in supports)
    used = [own for stored in sets for _, own in stored] + [own for *_, own in aligned]
    indices = tuple(dict.fromkeys(v for own in used for v in own))
    pattern = join_patterns(what, indices, sets, tuple(sizes[v] for v in indices))
    arrays = [values_at(what, Access(name, own), x, indices, pattern) if own else x for name, x, own in aligned]
    values = jit_map(call_function, pattern, *arrays, name=function, what=what)
    values = poison_if_overflowed(values, pattern, (own for own, _ in patterns))
    result: SparseTensor = SparseTensor._wrap(values, pattern)
    if indices == names:
        return result
    # The operand whose pattern comes first lacks a dimension, so this one comes last.
    statement = Statement(Access("R", names), (Product(1, (Access("T", indices),)),))
    return plan_statement(what, statement, {"T": result}, None, None, shape=shape).run()


@lru_cache(maxsize=1024)
def _supports(function: str, keys: tuple[int | None, ...], others: tuple[Background, ...]) -> Sets:
    """Find the smallest sets of patterns such that the function may differ from 0 where all of a set store an entry.

    Args:
        keys: the number of each operand's pattern, or None.
        others: what is known of each operand without a pattern.
    """

    def value(present: frozenset[int]) -> Background:
        states = (UNKNOWN if key in present else ABSENT for key in keys)
        arguments = (other if key is None else state for key, state, other in zip(keys, states, others, strict=True))
        result = _background(function, tuple(arguments))
        return ABSENT if is_zero(result) else result

    return smallest_sets(sorted({key for key in keys if key is not None}), value)


@lru_cache(maxsize=1024)
def _background(function: str, arguments: tuple[Background, ...]) -> Background:
    """Compute the known properties of a function's value at a point from those of its arguments at the point."""
    return background(function, arguments, partial(of_numbers, function))


def _check_integers(what: str, operands: Sequence[Any]) -> None:
    """Raise DTypeError if an operand is neither bool nor integer."""
    for x in operands:
        dtype = x.dtype if isinstance(x, SparseTensor) else jnp.result_type(_operand(x, what))
        if dtype.kind not in "biu":
            raise DTypeError(
                f"Expected operands of {what} that are bool or integers, but one is {dtype}. Compare it first, as in A "
                "> 0, or cast it with A.astype(int)."
            )


def _cause(given: Sequence[SparseTensor | Array], numbers: Sequence[Background]) -> str:
    """Return a sentence that names the first dense operand that is not a known number; empty if there is none."""
    for x, number in zip(given, numbers, strict=True):
        if number is UNKNOWN:
            traced = ", and it is traced" if isinstance(x, jax.core.Tracer) and np.size(x) == 1 else ""
            return f"An operand of shape {shorten(np.shape(x))} is not known to be a number for which it is{traced}. "
    return ""


def number_or_unknown(x: Any) -> Background:
    """Return the number if an operand is a known number; UNKNOWN for any other operand."""
    if isinstance(x, int | float | complex):
        return check_python_int(x, "a number together with a SparseTensor") if type(x) is int else x
    if isinstance(x, jax.core.Tracer) or np.size(x) != 1:
        return UNKNOWN
    number = np.asarray(x).item()
    return number if isinstance(number, int | float | complex) else float(number)  # bfloat16


def _operand(x: TensorLike, what: str) -> Any:
    """Convert an operand to a tensor or an array; keep Python numbers. Raises DTypeError for anything else."""
    x = as_sparse_operand(x, what)
    return x if isinstance(x, SparseTensor | int | float | complex) else jax_array(x, f"the operands of {what}")


def _shape(x: Any) -> tuple[int, ...]:
    """Return the shape of a tensor, an array or a number of Python."""
    return tuple(getattr(x, "shape", ()))
