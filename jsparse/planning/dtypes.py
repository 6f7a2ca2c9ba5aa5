"""Input, compute and result dtypes of a product.

    promoted    the dtype to which the operands promote, by `jnp.result_type`
    computed    the dtype of the values that the kernel stores: the result's dtype, unless that would cut floats to
                integers or numbers to bools, or make real numbers complex
    result      the promoted dtype, or `preferred_element_type`

A kernel casts the elements that it loads. So an operand keeps its dtype, unless promoting the operand first would give
the kernel other numbers.

Bare patterns have no dtype and promote nothing. A product of bare patterns alone counts entries, so it has the default
integer dtype. It has dtype bool if the semiring multiplies by bitwise and, whose identity over integers is -1, not 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import parse_dtype
from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import DTYPES, NARROW_FLOATS, accumulator, arithmetic_dtype, is_complex, part
from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.errors import DTypeError, IntegerRangeError, SemiringError
from jsparse.planning.signature import Signature


def convert_dtype(x: Any, dtype: np.dtype) -> Any:
    """Convert an array to a dtype; an array of that dtype is returned unchanged."""
    # The comparison here is faster than jax's own in astype, and eager calls take this path.
    return x if x.dtype == dtype else x.astype(dtype)


@dataclass(frozen=True, slots=True)
class Dtypes:
    """The dtypes of a product or of a sum of products. The module's docstring defines these three dtypes."""

    promoted: np.dtype
    computed: np.dtype
    result: np.dtype

    @property
    def intermediate(self) -> np.dtype:
        """The dtype of the results of steps and terms, wide enough that only the last result is rounded."""
        return wide_dtype(self.computed)

    @property
    def of_term(self) -> Dtypes:
        """The dtypes of a product that is one term of a sum."""
        return replace(self, computed=self.intermediate, result=self.intermediate)

    def operand_dtype(self, dtype: np.dtype) -> np.dtype:
        """The dtype in which an operand of this dtype is passed to the primitive."""
        return dtype if dtype.name in DTYPES and self._is_same_promoted(dtype) else self.promoted

    def _is_same_promoted(self, dtype: np.dtype) -> bool:
        """Whether a cast in the kernel gives the same numbers as promoting the operand first."""
        if is_complex(dtype) and not is_complex(self.promoted):
            return False
        if self.promoted.name in NARROW_FLOATS:
            exact = 2 ** (jnp.finfo(self.promoted).nmant + 1)  # integers up to here are exact
            return dtype == self.promoted or (dtype.kind in "biu" and 2 ** (8 * dtype.itemsize) <= exact)
        operand, common = part(dtype.name), part(self.promoted.name)
        return accumulator(operand, common) == accumulator(common)

    def reduction_dtype(self, dtype: np.dtype) -> np.dtype:
        """The dtype in which an operand is prereduced; `dtype` is its `operand_dtype`."""
        return dtype if is_complex(dtype) else np.dtype(accumulator(dtype.name))

    @property
    def dense(self) -> np.dtype:
        """The `preferred_element_type` of a product that XLA computes from promoted operands."""
        return common_dtype(self.promoted, self.intermediate)


def common_dtype(*values: Any) -> np.dtype:
    """The dtype to which dtypes, arrays and numbers promote, by `jnp.result_type`.

    A narrow float (float16 or bfloat16) and float32 give float32, even if JAX is set to strict promotion. Users do not
    mix the two themselves: jsparse computes sums of narrow floats in float32.
    """
    first = values[0]
    if all(isinstance(x, np.dtype) and x == first for x in values) and first.isnative and 0 < first.itemsize <= 4:
        return first  # whether x64 is on or off
    if any(getattr(x, "dtype", x) == np.float32 for x in values):
        values = tuple(x for x in values if getattr(getattr(x, "dtype", x), "name", "") not in NARROW_FLOATS)
    return np.dtype(jnp.result_type(*values))


def wide_float(*dtypes: Any) -> np.dtype:
    """The float dtype in which numbers of these dtypes are added and divided: float32, or a wider dtype among them."""
    floats = [dtype for dtype in dtypes if jnp.issubdtype(dtype, jnp.inexact)]
    return wide_dtype(common_dtype(*floats or [np.dtype(np.float32)]))


@cache
def wide_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype in which to compute a result of this dtype, so that only the final result is rounded."""
    return np.dtype(arithmetic_dtype(dtype.name))


def dtypes_of(
    text: str,
    operands: Sequence[Signature],
    numbers: Sequence[complex] = (),
    preferred: np.dtype | None = None,
    semiring: Semiring = PLUS_TIMES,
) -> Dtypes:
    """Find the dtypes of a product or sum of operands and numbers. Raises DTypeError if a dtype is not supported."""
    valued = [x for x in operands if not x.is_bare]
    if valued or semiring.multiply != "&":
        operands = valued or operands
        try:
            promoted = common_dtype(*(x.promoting for x in operands), *numbers)
        except (TypeError, ValueError) as error:
            raise DTypeError(
                f"Expected the operands of '{text}' to promote to one dtype, but JAX does not promote "
                f"{_list_dtypes(operands)}. Convert them with .astype."
            ) from error
    else:
        promoted = np.dtype(bool)
    result = promoted if preferred is None else preferred
    if promoted.name not in DTYPES:
        raise DTypeError(
            f"Expected the operands of '{text}' to promote to one of {', '.join(DTYPES)}, but {_list_dtypes(operands)} "
            f"promote to {promoted}. Convert them with .astype."
        )
    if result.name not in DTYPES or (is_complex(promoted) and not is_complex(result)):
        raise DTypeError(
            f"Expected preferred_element_type of '{text}' to be one of {', '.join(DTYPES)}, and complex if operands "
            f"are, but it is {result} and the operands promote to {promoted}. Pass another dtype, or convert the "
            f"operands with .astype."
        )
    return Dtypes(promoted, _arithmetic_dtype(promoted, result), result)


def check_coefficients(text: str, coefficients: Sequence[complex], dtype: np.dtype) -> None:
    """Raise DTypeError, or its subclass IntegerRangeError, for a coefficient that the dtype of a sum cannot represent.

    A sum of bools allows no coefficient but 1. A sum of integers is computed in a dtype of 32 bits or more, and its
    coefficients have to fit into that dtype.
    """
    if dtype == np.bool_ and any(number != 1 for number in coefficients):
        raise DTypeError(
            f"Expected operands of '{text}' that can be subtracted, but all of them are bool. Convert one of them with "
            ".astype."
        )
    if dtype.kind in "iu":
        most = np.iinfo(accumulator(dtype.name)).max
        large = [number for number in coefficients if abs(number) > most]
        if large:
            raise IntegerRangeError(
                f"Expected numbers of at most {most} with the {dtype} operands of '{text}', but got {large[0]}. "
                f"Convert an operand to float with .astype."
            )


def _list_dtypes(operands: Sequence[Signature]) -> str:
    return ", ".join(x.dtype.name for x in operands)


def _arithmetic_dtype(promoted: np.dtype, result: np.dtype) -> np.dtype:
    if is_complex(promoted) or is_complex(result):
        return result if is_complex(promoted) else promoted
    if result == np.bool_:
        return promoted
    is_float = [accumulator(dtype.name).startswith("float") for dtype in (promoted, result)]
    return promoted if is_float == [True, False] else result


def parse_preferred_dtype(text: str, dtype: Any) -> np.dtype | None:
    """Convert `preferred_element_type` to a dtype, canonicalized as in JAX: 64 bits only if x64 is enabled.

    Raises DTypeError if `dtype` is not a dtype of numbers.
    """
    if dtype is None:
        return None
    parsed = parse_dtype(dtype, f"preferred_element_type of {text} to be a dtype of numbers")
    return parsed if parsed.itemsize <= 4 else np.dtype(jnp.empty((), parsed).dtype)


def check_semiring_dtype(text: str, semiring: Semiring, dtype: np.dtype) -> None:
    """Raise SemiringError if the semiring's operations are not defined for numbers of that dtype."""
    bitwise = "|" in (semiring.add, semiring.multiply) or semiring.multiply == "&"
    if bitwise and dtype.kind not in "biu":
        raise SemiringError(
            f"Expected the operands of '{text}' over {semiring} to be bool or integers, but they are {dtype}. Compare "
            "them, as in A.with_values((A.values != 0).astype('int32'))."
        )
    if dtype.kind == "c" and not semiring.is_linear:
        raise SemiringError(
            f"Expected the operands of '{text}' over {semiring} to be real, but they are {dtype}. Take .real or abs."
        )
