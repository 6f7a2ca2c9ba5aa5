"""`jsparse.config.log_compiles`: messages of statements that are planned for operands that are new to them.

What differs from earlier operands says why JAX makes a program anew. Its own messages (`jax_log_compiles`) list the
shapes of leaves, in which two static patterns with as many entries look the same.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from jsparse.base.memo import remembered
from jsparse.formats import Pattern
from jsparse.planning.signature import PatternRef, Request, Signature

__all__ = ["log_planned"]

_log = logging.getLogger("jsparse")

STATEMENTS, OPERANDS = 256, 64  # of how many statements, and of how many calls of each, operands are remembered


class Description(NamedTuple):
    """What a plan depends on of one operand, without its arrays. `content` is None of dense and dynamic operands."""

    shape: tuple[int, ...]
    dtype: str | None
    format: str
    nse: int | None = None
    content: str | None = None

    def __str__(self) -> str:
        size = "x".join(map(str, self.shape)) or "()"
        stored = "" if self.nse is None else f" nse={self.nse:,}"
        return " ".join(filter(None, [self.dtype, self.format, size + stored, self.content]))

    def differences(self, other: Description) -> list[str]:
        """The names of the fields that differ. In another format or shape there is no content to compare."""
        found = [name for name, a, b in zip(self._fields, self, other, strict=True) if a != b]
        return [name for name in found if name != "content" or not {"shape", "format"} & {*found}]


Operands = dict[str, Description]


def log_planned(text: str, names: Sequence[str], operands: Sequence[Signature], request: Request) -> None:
    """Log what a statement is planned for: as a warning if it is new, as information if JAX only traces it again."""
    found = {name: _described(x) for name, x in zip(names, operands, strict=True)}
    if isinstance(request.output, PatternRef):
        found["out_format"] = _stored(request.output, None)
    known = _history(text, tuple(found))
    if found not in known:
        _log.warning("%s", _message(text, found, _nearest(found, known)))
    elif _is_traced():
        _log.info("%s", _message(text, found, found))
    else:
        return
    known.append(found)


@remembered(maxsize=STATEMENTS)
def _history(text: str, names: tuple[str, ...]) -> deque[Operands]:
    """The operands with these names that a statement was planned for, the latest ones last."""
    return deque(maxlen=OPERANDS)


def _described(x: Signature) -> Description:
    if x.stored is None:
        return Description(x.shape, x.dtype.name, "dense")
    return _stored(x.stored, None if x.is_bare else x.dtype.name)


def _stored(on: PatternRef, dtype: str | None) -> Description:
    pattern = on.pattern
    if isinstance(pattern, Pattern):
        return Description(pattern.shape, dtype, pattern.format.name, pattern.nse, pattern.digest[:6])
    return Description(pattern.shape, dtype, f"dynamic {pattern.format.name}", pattern.nse)


def _nearest(found: Operands, known: Sequence[Operands]) -> Operands | None:
    """The operands with the fewest differences, first of shapes; the latest ones of these."""

    def distance(other: Operands) -> tuple[int, int]:
        differences = [field for name, x in found.items() for field in x.differences(other[name])]
        return differences.count("shape"), len(differences)

    return min(reversed(known), key=distance, default=None)


def _message(text: str, found: Operands, before: Operands | None) -> str:
    shown = f"Compiling '{text}' for {', '.join(map(str, found.values()))}"
    if before is None:
        return f"{shown}, for the first time."
    if before == found:
        return f"{shown}, as before: another argument or function made JAX trace anew."
    changes = {name: x.differences(before[name]) for name, x in found.items() if x != before[name]}
    told = (f"{name} differs in {', '.join(fields)} from {before[name]}" for name, fields in changes.items())
    entries = any(found[name].content and {*fields} <= {"nse", "content"} for name, fields in changes.items())
    hint = " A.dynamic(nse=...) makes tensors of other entries share one program." if entries else ""
    return f"{shown}: {'; '.join(told)}.{hint}"


def _is_traced() -> bool:
    """Whether operations now become part of a program. Derivatives and batches outside jit are computed at once."""
    return isinstance(jax.lax.neg(np.float32(0)), jax.core.Tracer)
