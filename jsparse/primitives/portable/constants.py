"""The index arrays of static patterns, which are constants of programs for other platforms than CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

from jsparse import _compat
from jsparse.errors import NotYetSupportedError
from jsparse.formats import Pattern, Relayout
from jsparse.primitives.entries_spec import Entries
from jsparse.primitives.spec import Spec

__all__ = ["MOST", "limited"]

MOST = 1 << 20
"""The most bytes of index arrays that a program for other platforms has as constants."""

_found: WeakKeyDictionary[Any, dict[str, int]] = WeakKeyDictionary()  # bytes by pattern, for each program


def limited(rule: Callable[..., Any]) -> Callable[..., Any]:
    """The lowering rule, which raises NotYetSupportedError if a program for another platform than CPU has more bytes of
    index arrays than MOST in all."""

    def checked(ctx: Any, *operands: Any, **params: Any) -> Any:
        others = [name for name in _compat.platforms_of(ctx) if name != "cpu"]
        if others:
            known = _found.setdefault(_compat.program_of(ctx), {})
            known.update((p.digest, p.ndim * p.nse * p.index_dtype.itemsize) for p in _patterns(params))
            if sum(known.values()) > MOST:
                raise NotYetSupportedError(
                    f"Expected index arrays of static patterns of at most {MOST:,} bytes in a program for "
                    f"{' and '.join(others)}, where they are constants, but there are {sum(known.values()):,}. Make "
                    f"the tensors dynamic, by jsparse.asarray(..., dynamic=True), and pass them as arguments."
                )
        return rule(ctx, *operands, **params)

    return checked


def _patterns(params: dict[str, Any]) -> Iterator[Pattern]:
    for value in params.values():
        if isinstance(value, Spec):
            found: list[Any] = [walk.pattern for walk in value.walks]
        elif isinstance(value, Entries):
            found = [*(walk.pattern for walk in value.reached.walks), value.result]
        else:
            found = [value.source, value.target] if isinstance(value, Relayout) else []
        yield from (x for x in found if isinstance(x, Pattern))
