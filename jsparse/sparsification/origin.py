"""The origin of an equation: a line of the user's code, and the library function that this line calls.

Code is library code if it is installed where Python keeps packages, or belongs to Python, JAX or jsparse. Equations
inside `optax.huber_loss` come from the line that calls this function. Equations of the function `loss` below come from
their line in `loss`:

    def loss(A):
        return optax.huber_loss(A).mean()
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from itertools import takewhile
from types import FrameType

import jax
from jax.extend.core import JaxprEqn

from jsparse import _compat
from jsparse.base.dataclass import dataclass

Frame = tuple[str, int, str]
"""File, line and function."""

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
JAX = os.path.dirname(os.path.abspath(jax.__file__))  # noqa: PTH100, PTH120


@dataclass(frozen=True)
class Origin:
    """The origin of an equation.

    Attributes:
        line: file, line and function of the user's code; empty if no line is known.
        function: the library function that the line calls; empty if the line has the operation itself.
        is_call: whether the equation calls a jaxpr, and this is the origin for the equations in that jaxpr.
    """

    line: str = ""
    function: str = ""
    is_call: bool = False

    def __str__(self) -> str:
        return f"{f' of {self.function}' if self.function else ''}{f' in {self.line}' if self.line else ''}"

    @staticmethod
    def of_caller() -> Origin:
        """Find the line that calls jsparse: the innermost line on Python's stack that is not in a library."""
        frame: FrameType | None = sys._getframe(1)
        frames: list[Frame] = []
        while frame is not None:
            frames.append((frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname))
            frame = frame.f_back
        users = [x for x in frames if not _is_library(x[0])]
        installed = [x for x in frames if not x[0].startswith((HERE, JAX, "<frozen"))]
        return Origin(_describe_frame((users or installed or frames)[0]))

    @staticmethod
    def of(source: JaxprEqn, called_from: Origin) -> Origin:
        """Find the origin of an equation. `called_from` is the origin of the call of the jaxpr that contains it.

        A library function that is traced once for several lines has no line of the user's code in its frames. The
        result is then the line of `called_from`.
        """
        frames: Sequence[Frame] = _compat.traceback_frames(source)
        if called_from.is_call:  # the frames inside the function that JAX traces
            frames = list(takewhile(lambda frame: not _is_tracer(frame), frames))
        place = next((n for n, (file, _, _) in enumerate(frames) if not _is_library(file)), None)
        if place is not None:
            return Origin(_describe_frame(frames[place]), _function(frames[:place]))
        return Origin(called_from.line, called_from.function or _function(frames))

    def calling(self, function: str) -> Origin:
        """Return an origin for equations in `function`. Add the name `function` if this origin has no function name."""
        named = "" if function.startswith(("_", "<")) else function
        return Origin(self.line, self.function or named, True)


def _describe_frame(frame: Frame) -> str:
    return f"{frame[0]}:{frame[1]} ({frame[2]})"


def _is_tracer(frame: Frame) -> bool:
    return frame[0].startswith(JAX) and (frame[2].endswith("call_wrapped") or "trace_to_jaxpr" in frame[2])


def _function(inner: Sequence[Frame]) -> str:
    """Return the name of the library layer or function that a line calls, from the frames inside that call.

    A function of JAX counts only if the line itself calls it, not if a function of another library calls it.
    """
    outermost_first = [(file, name) for file, _, name in reversed(inner) if not file.startswith(HERE)]
    others = [name for file, name in outermost_first if not file.startswith(JAX)]
    layers = [name.removesuffix(".__call__") for name in others if name.endswith(".__call__")]
    names = [*layers, *others] if others else [name for _, name in outermost_first[:1] if "." not in name]
    return next((name for name in names if not name.startswith("_") and "<" not in name), "")


UNKNOWN = Origin()


@cache
def _is_library(file: str) -> bool:
    return file.startswith(("<frozen", *_folders()))


@cache
def _folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {*site.getsitepackages(), site.getusersitepackages(), HERE, JAX}
    return tuple(os.path.join(folder, "") for folder in sorted(folders))  # noqa: PTH118
