"""Routes: what an operation does for a kind of operands, without reading the operation again.

An operation on known tensors decides by shapes, formats and dtypes which einsum it is, and runs the host program of the
operands' kind. It decides the same for all operands of the kind, and that takes longer than a small kernel. So the
first calls are recorded: if the operation ran one host program, on its own operands, and returned the result as it was,
then later calls run that program at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import update_wrapper
from typing import ParamSpec, TypeVar, cast

import jax

from jsparse import _compat
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize
from jsparse.formats import Pattern
from jsparse.planning.host.kinds import (
    KINDS,
    MOST_ENTRIES,
    TRIES,
    HostCall,
    Kind,
    are_run_by_kind,
    kind_of_pattern,
    recorded,
)
from jsparse.tensor.sparse_tensor import SparseTensor

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True)
class Route:
    """The steps of an operation for operands of one kind.

    Attributes:
        kind: the kind whose host program it runs, or None if no such program is known.
        order: for each operand of the program, the number of the argument.
        tries: how many calls were recorded to find the program.
    """

    kind: Kind | None = None
    order: tuple[int, ...] = ()
    tries: int = 0

    def take(self, arguments: Sequence[object], calls: Sequence[HostCall], result: object) -> None:
        """Take the program that was run in a recorded call, if it computed the result from the arguments alone."""
        if len(calls) != 1 or calls[0].result is not result or calls[0].stored[-1] is not None:
            return  # `stored` ends with the pattern of `out_format`
        numbers = {id(x): n for n, x in enumerate(arguments)}
        order = [numbers.get(id(x)) for x in calls[0].operands]
        if None not in order:
            self.kind, self.order = calls[0].kind, tuple(cast("list[int]", order))

    def run(self, arguments: Sequence[object]) -> object | None:
        """Run the program. The result is None if the operands need their own plan."""
        assert self.kind is not None
        operands = [arguments[n] for n in self.order]
        on = [x.pattern if isinstance(x, SparseTensor) else None for x in operands]
        stored = [*(p if isinstance(p, Pattern) else None for p in on), None]
        return self.kind.run(operands, stored) if self.kind.is_new(stored) else None


@memoize(maxsize=KINDS)
def _route(operation: Hashable, kind: Hashable) -> Route:
    return Route()


def by_kind(operation: Callable[P, R]) -> Callable[P, R]:
    """Decorate an operation on tensors, which may run the host program of its operands' kind without the operation.

    The computation may only depend on positional arguments that are neither arrays nor tensors, on the kind of the
    arguments that are, and on settings in the key of JAX's traces.
    """

    def apply_by_route(*args: P.args, **kwargs: P.kwargs) -> R:
        kind = None if kwargs else _kind_of(args)
        if kind is None:
            return operation(*args, **kwargs)
        route = _route(operation, kind)
        if route.kind is not None:
            result = route.run(args)
            return operation(*args, **kwargs) if result is None else cast(R, result)
        if route.tries == TRIES:
            return operation(*args, **kwargs)
        route.tries += 1
        calls: list[HostCall] = []
        token = recorded.set(calls)
        try:
            computed = operation(*args, **kwargs)
        finally:
            recorded.reset(token)
        route.take(args, calls, computed)
        return computed

    return update_wrapper(apply_by_route, operation)


def _kind_of(arguments: Sequence[object]) -> Hashable | None:
    """The properties that arguments on patterns of one kind share. None if no host program computes with them."""
    numbers: dict[object, int] = {}
    parts: list[Hashable] = [_compat.trace_settings()]
    arrays: list[object] = []
    for x in arguments:
        if type(x) is SparseTensor:
            pattern, values = x.pattern, x.values
            if type(pattern) is not Pattern or pattern.nse > MOST_ENTRIES or not isinstance(values, jax.Array):
                return None
            if values.shape != (pattern.nse,):
                return None  # the operation raises the error
            same = numbers.setdefault(id(values), len(numbers))
            parts += [kind_of_pattern(pattern, numbers), values.dtype, same]
            arrays.append(values)
        elif isinstance(x, jax.Array):
            parts += [x.shape, x.dtype, numbers.setdefault(id(x), len(numbers))]
            arrays.append(x)
        elif type(x) is str:
            parts.append(x)
        else:
            return None
    return tuple(parts) if len(arrays) > 1 and are_run_by_kind(arrays) else None
