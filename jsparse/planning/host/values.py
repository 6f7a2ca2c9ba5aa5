"""The kernels of a host program that compute values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from jsparse.base.arrays import allocate_aligned
from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import as_dtype, is_complex
from jsparse.compiler.runtime.kernel_call import run_recipe
from jsparse.formats import Pattern
from jsparse.planning.host.operands import HostFactor, HostWalk, Sources, Unfit, move_values, take_factors, take_walks
from jsparse.planning.term import Term
from jsparse.primitives.execute import plan_kernel
from jsparse.primitives.storage_order import transpose_to

RESULT = -1
"""Stands for the result's pattern where others have the number of an operand."""


@dataclass(frozen=True, slots=True)
class HostTerm:
    """A term of a sum, on a pattern that is known or as a dense array: one call of a kernel.

    Attributes:
        before: the sizes of the result's leading axes, or all of its sizes if it is dense.
        on: the number of the walk on which the result lies; None if it is dense.
        inner: the number of elements in a slot of the result.
        order: the order of a dense result's dimensions in the kernel.
    """

    recipe: str
    walks: tuple[HostWalk, ...]
    factors: tuple[HostFactor, ...]
    before: tuple[int, ...]
    on: int | None
    inner: int
    order: tuple[int, ...]
    stored: np.dtype
    dtype: np.dtype
    coefficient: complex

    @staticmethod
    def of(term: Term, sources: Sources) -> HostTerm:
        """Take the kernel of a term. Raises Unfit."""
        spec = term.spec
        if spec is None or is_complex(term.dtypes.computed) or spec.factors == (spec.result,):
            raise Unfit
        plan, call = plan_kernel(spec, term.kernel_dtypes)
        result, *tensors = plan.problem.tensors
        factors = take_factors(term, spec, [tensor.dense_dims for tensor in tensors])
        at = spec.result
        shape = tuple(dict(spec.sizes)[v] for v in at.before)
        return HostTerm(
            call.recipe, take_walks(plan, spec.walks, sources), factors, shape, at.on, spec.slot_size(at),
            result.dense_dims, np.dtype(result.dtype), term.dtype, term.coefficient,
        )  # fmt: skip

    def run(self, operands: Sequence[np.ndarray], cores: Mapping[int, Pattern]) -> np.ndarray:
        """Compute the term."""
        moves = [walk.relayout(cores) for walk in self.walks]
        index = [array for move in moves for array in move.target.arrays]
        if self.on is None:
            shape = tuple(self.before[n] for n in self.order)
        else:
            shape = (*self.before, moves[self.on].target.nse * self.inner)
        out = allocate_aligned(shape, self.stored)
        run_recipe(self.recipe, [*(x.array(operands, moves) for x in self.factors), *index, out])
        if self.on is None:
            out = transpose_to(out, tuple(self.order.index(n) for n in range(len(self.order))))
        else:
            out = move_values(out, moves[self.on], len(self.before), self.inner, back=True)
        out = out.astype(self.dtype, copy=False)
        if self.coefficient in (1, -1):
            return out if self.coefficient == 1 else -out
        return np.asarray(out * as_dtype(self.coefficient, out.dtype))
