"""`jsparse.config`: how what is traced from now on is compiled."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, fields, replace
from operator import index
from pathlib import Path
from typing import Any

from jsparse._compat import make_context
from jsparse.compiler.backends.table import BACKENDS, DEFAULT
from jsparse.compiler.cache import place
from jsparse.errors import ConfigError, represented

__all__ = ["Config", "Settings", "config"]

CHOICES = {"bounds": ("clamp", "check"), "backend": tuple(BACKENDS)}


@dataclass(frozen=True, slots=True)
class Settings:
    """What `config` holds; part of the key under which JAX remembers what it has traced."""

    bounds: str = "clamp"
    backend: str = DEFAULT


def _path(value: Any, shown: str) -> str | None:
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if path is None or (isinstance(path, str) and not path):
        return None
    if not isinstance(path, str) or "\0" in path:
        raise ConfigError(f"Expected {shown} to be a path, or '' for none, but got {represented(value)}.")
    try:
        return str(Path(path).expanduser().absolute())
    except (OSError, RuntimeError) as error:  # the current folder is gone; no home is known
        raise ConfigError(f"Expected {shown} to be an absolute path, but got {represented(value)}: {error}.") from error


def _bytes(value: Any, shown: str) -> int:
    with suppress(TypeError, ValueError):
        number = int(value) if isinstance(value, str) else index(value)
        if number > 0 and not isinstance(value, bool):
            return number
    raise ConfigError(f"Expected {shown} to be a positive number of bytes, but got {represented(value)}.")


PROCESS: dict[str, Callable[[Any, str], Any]] = {"cache_dir": _path, "cache_bytes": _bytes}
"""What is one for all threads and changes no program, with what checks it."""

TRACED = tuple(field.name for field in fields(Settings))
NAMES = (*TRACED, *PROCESS)


class Config:
    """The settings of jsparse.

        jsparse.config.bounds = "check"               # everywhere
        with jsparse.config(bounds="check"): ...      # in this thread, inside the block

    They take effect at the next call, also of functions that are jitted already: JAX remembers a program for each
    value of `bounds` and `backend`. `cache_dir` and `cache_bytes` are of the whole process: they change no program, and
    are assigned but not set for a block. At import all are read from the environment, as JSPARSE_BOUNDS=check.

    Attributes:
        bounds: what a program does with the index arrays of dynamic tensors. "clamp": kernels stay within the arrays
            whatever these hold; what is out of range contributes nothing, and of arrays that are no pattern's
            (unsorted, say) the result means nothing. "check": they are checked in full by each operation, which fails
            if they are wrong. That costs about as much as reading them a few times.
        backend: what makes kernels run. "llvm": machine code for this CPU. "interpret": Python executes them, statement
            by statement, thousands of times slower; to compare with where machine code is in doubt. The extension's own
            routines run as ever, and so does what XLA computes.
        cache_dir: the folder in which compiled kernels are kept for later processes (docs/cache.md). It is made when
            the first kernel is, and must be one that only this user can write to, since it holds machine code. None,
            or "", also in the environment: kernels are kept in memory only. Else, an absolute path; before it is set,
            the cache folder that the system has for this user, as ~/.cache/jsparse.
        cache_bytes: how large the files in it may be together; those not used for longest are removed. 256 MiB.
    """

    bounds: str
    backend: str
    cache_dir: str | os.PathLike[str] | None
    cache_bytes: int

    def __init__(self) -> None:
        for name in PROCESS:
            found = os.environ.get(_variable(name))
            if found or (found is not None and name == "cache_dir"):  # an empty one is a choice there
                setattr(place, name, PROCESS[name](found, f"the environment variable {_variable(name)}"))
        self.__dict__["_everywhere"] = _from_environment()
        self.__dict__["_context"] = make_context(self._everywhere)

    @property
    def value(self) -> Settings:
        """All of them, as they are for this thread."""
        found: Settings = self._context.value
        return found

    def __call__(self, **changes: str) -> AbstractContextManager[None]:
        """A block in which settings are others, for this thread. Raises ConfigError for unknown names or values."""
        manager: AbstractContextManager[None] = self._context(_changed(self.value, changes))
        return manager

    def __getattr__(self, name: str) -> Any:
        if name in PROCESS:
            return getattr(place, name)
        if name in TRACED:
            return getattr(self.value, name)
        raise AttributeError(_unknown(name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in NAMES:
            raise AttributeError(_unknown(name))
        if name in PROCESS:
            setattr(place, name, PROCESS[name](value, f"config.{name}"))
            return
        self.__dict__["_everywhere"] = _changed(self._everywhere, {name: value})
        self._context.set_global(self._everywhere)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *NAMES]

    def __repr__(self) -> str:
        return f"jsparse.config({', '.join(f'{name}={getattr(self, name)!r}' for name in NAMES)})"


def _variable(name: str) -> str:
    return f"JSPARSE_{name.upper()}"


def _from_environment() -> Settings:
    found = {name: os.environ.get(_variable(name)) for name in TRACED}
    for name, value in found.items():
        if value:
            _check(name, value, f"the environment variable {_variable(name)}")
    return Settings(**{name: value for name, value in found.items() if value})


def _changed(settings: Settings, changes: dict[str, Any]) -> Settings:
    for name, value in changes.items():
        if name not in NAMES:
            raise ConfigError(_unknown(name))
        if name in PROCESS:
            raise ConfigError(
                f"Expected a setting that a thread can have for a block, but got {name}, which is one for the whole "
                f"process. Assign it: jsparse.config.{name} = {represented(changes[name])}."
            )
        _check(name, value, f"config.{name}")
    return replace(settings, **changes)


def _check(name: str, value: Any, shown: str) -> None:
    if value not in CHOICES[name]:
        choices = " or ".join(map(repr, CHOICES[name]))
        raise ConfigError(f"Expected {shown} to be {choices}, but got {represented(value)}.")


def _unknown(name: str) -> str:
    return f"Expected one of the settings {', '.join(NAMES)} of jsparse.config, but got {represented(name)}."


config = Config()
"""The settings."""
