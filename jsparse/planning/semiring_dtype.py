"""The check that a semiring is defined for a dtype."""

from __future__ import annotations

import numpy as np

from jsparse.compiler.semiring import Semiring
from jsparse.errors import SemiringError

__all__ = ["check_semiring_dtype"]


def check_semiring_dtype(text: str, semiring: Semiring, dtype: np.dtype) -> None:
    """Raise SemiringError if the semiring's operations are not defined for numbers of that dtype."""
    bitwise = "|" in (semiring.add, semiring.multiply) or semiring.multiply == "&"
    if bitwise and dtype.kind not in "biu":
        raise SemiringError(
            f"Expected the operands of '{text}' by {semiring} to be bool or integers, but they are {dtype}. Compare "
            f"them, as in A.with_values((A.values != 0).astype('int32'))."
        )
    if dtype.kind == "c" and not semiring.is_linear:
        raise SemiringError(
            f"Expected the operands of '{text}' by {semiring} to be real, but they are {dtype}. Take .real or abs."
        )
