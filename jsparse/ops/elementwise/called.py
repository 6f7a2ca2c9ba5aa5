"""Functions of several operands, with numpy's meaning: each is a call in a statement, `R[i, j] = min(A[i, j], B[j])`.

If all tensors store the same entries and all other operands are known numbers, the function is applied to the values
directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array, check_python_int, jax_array
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import DTypeError, shorten
from jsparse.notation import Access, Product, Statement
from jsparse.notation.background import ABSENT, UNKNOWN, Background, State, background, dense_background, is_zero
from jsparse.notation.statement import Call
from jsparse.ops.calls.desugar import without_calls
from jsparse.ops.calls.support import meaning, of_numbers, row_of
from jsparse.ops.elementwise.broadcast import common_shape
from jsparse.ops.elementwise.map import on_one_pattern, result_pattern, value_operands
from jsparse.ops.shaping.axes import squeeze
from jsparse.planning.planned import plan_statement
from jsparse.tensor.entrywise import jit_map
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

NAMES = "ABCDE"


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
            return _of_values(function, what, operands)
    given = [_operand(x, what) for x in operands]
    tensors = [x for x in given if isinstance(x, SparseTensor)]
    if not tensors:
        return meaning(function)(*given)
    first, *others = tensors
    # Read from the operands as they were passed: an array that is converted in a traced program is not known.
    numbers = [
        ABSENT if isinstance(x, SparseTensor) else number_or_unknown(y) for x, y in zip(given, operands, strict=True)
    ]
    found = _at_nothing(function, tuple(numbers))
    is_small = all(isinstance(x, SparseTensor | int | float | complex) for x in given)
    is_on_one = all(on_one_pattern(first, x) for x in others)
    shape = first.shape if is_small and is_on_one else common_shape(what, *map(np.shape, given))
    if is_zero(found):
        if is_on_one and first.shape == shape:
            return _of_values(function, what, given)
        return _statement(function, what, given, numbers, shape)
    if is_small or not any(np.shape(x) == shape for x in given if not isinstance(x, SparseTensor)):
        raise dense_background(what, found, advice() + _cause(given, numbers), shape)
    return meaning(function)(*(x.todense() if isinstance(x, SparseTensor) else x for x in given))


def _check_integers(what: str, operands: Sequence[Any]) -> None:
    """Raise DTypeError if an operand is neither bool nor integer."""
    for x in operands:
        dtype = x.dtype if isinstance(x, SparseTensor) else jnp.result_type(_operand(x, what))
        if dtype.kind not in "biu":
            raise DTypeError(
                f"Expected operands of {what} that are bool or integers, but one is {dtype}. Compare it first, as in "
                f"A > 0, or cast it by A.astype(int)."
            )


def _of_values(function: str, what: str, given: Sequence[Any]) -> SparseTensor:
    """Apply a function to values of tensors on one pattern, to numbers, and to array elements at the entries."""
    at, tensors = 0, [x for x in given if isinstance(x, SparseTensor)]
    while given[at] is not tensors[0]:
        at += 1
    first, *values = value_operands(what, tensors[0], *given[:at], *given[at + 1 :])
    found = jit_map(meaning(function), tensors[0].pattern, *values[:at], first, *values[at:])
    return SparseTensor._wrap(found, result_pattern(*tensors))


def _cause(given: Sequence[SparseTensor | Array], numbers: Sequence[Background]) -> str:
    """Return a sentence that names the first dense operand that is not a known number; empty if there is none."""
    for x, number in zip(given, numbers, strict=True):
        if number is UNKNOWN:
            shape = "" if np.size(x) != 1 else ", and it is traced"
            return f"An operand of shape {shorten(np.shape(x))} is not known to be a number for which it is{shape}. "
    return ""


@lru_cache(maxsize=1024)
def _at_nothing(function: str, arguments: tuple[Background, ...]) -> Background:
    """Compute the value of a function at an element that the tensors do not store."""
    return background(function, arguments, partial(of_numbers, function))


def number_or_unknown(x: Any) -> Background:
    """Return the number if an operand is a known number; UNKNOWN for any other operand."""
    if isinstance(x, int | float | complex):
        return check_python_int(x, "a number beside a SparseTensor") if type(x) is int else x
    if isinstance(x, jax.core.Tracer) or np.size(x) != 1:
        return UNKNOWN
    number = np.asarray(x).item()
    return number if isinstance(number, int | float | complex) else float(number)  # bfloat16


def _statement(
    function: str,
    what: str,
    given: Sequence[SparseTensor | Array],
    numbers: Sequence[Background],
    shape: tuple[int, ...],
) -> SparseTensor:
    """Compute a function as a statement, over operands that broadcast to `shape`."""
    names = tuple(f"i{n}" for n in range(len(shape)))
    tensors, arguments = dict[str, Any](), []
    for letter, x in zip(NAMES, given, strict=False):
        own = names[len(names) - np.ndim(x) :]
        repeated = [n for n, v in enumerate(own) if np.shape(x)[n] != shape[names.index(v)]]
        if isinstance(x, SparseTensor):
            tensors[letter] = squeeze(x, repeated) if repeated else x
        else:
            x = jax_array(x, what)
            tensors[letter] = x.reshape([size for n, size in enumerate(x.shape) if n not in repeated])
        access = Access(letter, tuple(v for n, v in enumerate(own) if n not in repeated))
        arguments.append((Product(1, (access,)),))
    call = Call(function, tuple(arguments))
    term = Product(1, (Access(str(call), call.variables()),))
    statement = Statement(Access("R", names), (term,), calls=(call,))
    known = {letter: number for letter, number in zip(NAMES, numbers, strict=False) if not isinstance(number, State)}
    plain, made = without_calls(what, statement, tensors, None, shape, known)
    return plan_statement(what, plain, made, None, None, shape=shape).run()


def _operand(x: TensorLike, what: str) -> Any:
    """Convert an operand to a tensor or an array; keep Python numbers. Raises DTypeError for anything else."""
    x = as_sparse_operand(x, what)
    return x if isinstance(x, SparseTensor | int | float | complex) else jax_array(x, f"the operands of {what}")
