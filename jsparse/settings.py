"""`jsparse.config`: how what is traced from now on is compiled."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from typing import Any

from jsparse._compat import make_context
from jsparse.errors import ConfigError, represented

__all__ = ["Config", "Settings", "config"]

CHOICES = {"bounds": ("clamp", "check")}


@dataclass(frozen=True, slots=True)
class Settings:
    """What `config` holds; part of the key under which JAX remembers what it has traced."""

    bounds: str = "clamp"


NAMES = tuple(field.name for field in fields(Settings))


class Config:
    """The settings of jsparse.

        jsparse.config.bounds = "check"               # everywhere
        with jsparse.config(bounds="check"): ...      # in this thread, inside the block

    They take effect at the next call, also of functions that are jitted already: JAX remembers a program for each
    setting. At import they are read from the environment, as JSPARSE_BOUNDS=check.

    Attributes:
        bounds: what a program does with the index arrays of dynamic tensors. "clamp": kernels stay within the arrays
            whatever these hold; what is out of range contributes nothing, and of arrays that are no pattern's
            (unsorted, say) the result means nothing. "check": they are checked in full by each operation, which fails
            if they are wrong. That costs about as much as reading them a few times.
    """

    bounds: str

    def __init__(self) -> None:
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
        if name in NAMES:
            return getattr(self.value, name)
        raise AttributeError(_unknown(name))

    def __setattr__(self, name: str, value: str) -> None:
        if name not in NAMES:
            raise AttributeError(_unknown(name))
        self.__dict__["_everywhere"] = _changed(self._everywhere, {name: value})
        self._context.set_global(self._everywhere)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *NAMES]

    def __repr__(self) -> str:
        return f"jsparse.config({', '.join(f'{name}={getattr(self, name)!r}' for name in NAMES)})"


def _from_environment() -> Settings:
    found = {name: os.environ.get(f"JSPARSE_{name.upper()}") for name in NAMES}
    for name, value in found.items():
        if value:
            _check(name, value, f"the environment variable JSPARSE_{name.upper()}")
    return Settings(**{name: value for name, value in found.items() if value})


def _changed(settings: Settings, changes: dict[str, Any]) -> Settings:
    for name, value in changes.items():
        if name not in NAMES:
            raise ConfigError(_unknown(name))
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
