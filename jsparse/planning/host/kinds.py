"""The kinds of operands that were met, each with its host program."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import field
from typing import NamedTuple

import jax
import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize
from jsparse.compiler.backends import DEFAULT
from jsparse.formats import Pattern
from jsparse.formats.format import is_auto
from jsparse.planning.host.operands import Unfit
from jsparse.planning.host.program import HostProgram, values_of
from jsparse.planning.plan import ProgramPlan
from jsparse.planning.signature import PatternRef, Request, Signature
from jsparse.primitives.host import is_on_host, is_searched
from jsparse.settings import config
from jsparse.tensor.sparse_tensor import SparseTensor

MOST_ENTRIES = 1 << 18
"""The most entries of an operand. For larger operands, planning takes little time compared with the kernels."""

MEETINGS = 3
"""How often a host program serves the same operands. Then they get their own plan, and a compiled program."""

TRIES = 3
"""From how many plans of a kind a host program is tried to make. A plan may make use of its operands' entries."""

COUNTED = 1024
"""The number of operands of each kind whose calls are counted."""

KINDS = 256
"""How many kinds are remembered."""


@dataclass(slots=True)
class Kind:
    """A kind of operands of an expression.

    Attributes:
        program: its host program, or None if its plan has none.
        tries: how many plans of the kind were made to get the program.
        meetings: how often each operands were met, by the digests of their patterns. The latest are last.
    """

    program: HostProgram | None = None
    tries: int = 0
    meetings: OrderedDict[tuple[str | None, ...], int] = field(default_factory=OrderedDict)

    def is_new(self, stored: Sequence[Pattern | None]) -> bool:
        """Count a call, and return whether there were few with these patterns."""
        digests = tuple([None if p is None else p.digest for p in stored])
        count = self.meetings[digests] = self.meetings.pop(digests, 0) + 1
        if len(self.meetings) > COUNTED:
            self.meetings.popitem(last=False)
        return count <= MEETINGS

    def run(self, operands: Sequence[object], stored: Sequence[Pattern | None]) -> jax.Array | SparseTensor | None:
        """Run the program. The result is None if it has none for these operands, or if it fails."""
        if self.program is None:
            return None
        # A kernel that fails is run again by the operands' own plan, which raises the error.
        with np.errstate(all="ignore"), suppress(RuntimeError, Unfit):
            result = self.program.run(operands, stored)
            calls = recorded.get()
            if calls is not None:
                calls.append(HostCall(self, operands, stored, result))
            return result
        return None


def are_run_by_kind(operands: Sequence[object]) -> bool:
    """Whether host programs may compute with these arrays now."""
    usual = not config.is_portable and config.generator == DEFAULT and not is_searched()
    return usual and is_on_host(*operands)


class HostCall(NamedTuple):
    """A call of the host program of a kind."""

    kind: Kind
    operands: Sequence[object]
    stored: Sequence[Pattern | None]
    result: jax.Array | SparseTensor


recorded: ContextVar[list[HostCall] | None] = ContextVar("recorded", default=None)
"""The list of calls while somebody records them."""


@memoize(maxsize=KINDS)
def _kind(expression: Hashable, kind: Hashable) -> Kind:
    return Kind()


def kind_of_pattern(p: Pattern, numbers: dict[object, int]) -> Hashable:
    """The properties that a pattern shares with others of its kind. `numbers` counts the different index arrays."""
    same = numbers.setdefault(p.identity(), len(numbers))
    return p.shape, p.format, p.nse.bit_length(), p.index_dtype.char, same


def kind_of(signatures: Sequence[Signature], request: Request, stored: Sequence[Pattern | None]) -> Hashable:
    """The properties that operands on patterns of one kind share. `stored` has their patterns, then `out_format`'s."""
    numbers: dict[object, int] = {}
    patterns = tuple(None if p is None else kind_of_pattern(p, numbers) for p in stored)
    dense = tuple((x.shape, x.dtype, x.weak, x.is_bare, x.is_relation, x.same) for x in signatures)
    output = None if isinstance(request.output, PatternRef) else request.output
    return patterns, dense, output, request.dtype, request.shape, request.promotion, config.autotune


def run_by_kind(
    expression: Hashable,
    signatures: tuple[Signature, ...],
    request: Request,
    operands: Sequence[object],
    make_plan: Callable[[], ProgramPlan],
) -> jax.Array | SparseTensor | None:
    """Run the host program of the operands' kind. The result is None if they need their own plan.

    Args:
        expression: what is computed, as a part of the key.
        make_plan: makes the plan of these operands. It is called if they are the first of their kind.
    """
    on = [x.stored for x in signatures]
    on.append(request.output if isinstance(request.output, PatternRef) else None)
    stored = [x.pattern if x is not None and isinstance(x.pattern, Pattern) else None for x in on]
    is_special = request.nse is not None or request.schedules or is_auto(request.output)
    if not any(stored) or is_special or any(x.composed for x in signatures):
        return None
    if any(x is not None and (p is None or p.nse > MOST_ENTRIES) for x, p in zip(on, stored, strict=True)):
        return None
    if not are_run_by_kind(values_of(operands)):
        return None
    kind = _kind(expression, kind_of(signatures, request, stored))
    if not kind.is_new(stored):
        return None
    if kind.program is None and kind.tries < TRIES:
        kind.tries += 1
        with suppress(Unfit):
            kind.program = HostProgram.of(make_plan(), stored, request)
    return kind.run(operands, stored)
