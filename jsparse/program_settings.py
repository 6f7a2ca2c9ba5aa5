"""The settings that change programs, and are part of the key of JAX's traces.

A new part of the key makes JAX trace all functions again that are already jitted. So `import jsparse` registers these
settings before a program can read a tensor. Nothing here is slow to load; in particular, no code generator is loaded.
"""

from __future__ import annotations

import os
from dataclasses import fields

from jsparse._compat import make_context
from jsparse.base.dataclass import dataclass
from jsparse.errors import ConfigError, short_repr

__all__ = ["CHOICES", "KERNELS", "PORTABLE", "Settings", "check_choice", "program_settings", "variable"]

PORTABLE = "xla"
"""The backend whose programs have XLA operations in place of kernels of jsparse."""

KERNELS = "llvm"
"""The backend that makes kernels by default. Without llvmlite, `config.backend` is `PORTABLE` in its place."""

CHOICES = {
    "bounds": ("clamp", "check"),
    "backend": (KERNELS, "interpret", PORTABLE),
    "blocks": (PORTABLE, "pallas"),
    "tiles": ("auto", "on", "off"),
    "overflow": ("raise", "cut"),
    "autotune": ("off", "use"),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that change programs. They are part of the key of JAX's traces."""

    bounds: str = "clamp"
    backend: str = KERNELS
    blocks: str = PORTABLE
    tiles: str = "auto"
    overflow: str = "raise"
    autotune: str = "off"


def variable(name: str) -> str:
    """Return the name of the environment variable of a setting."""
    return f"JSPARSE_{name.upper()}"


def check_choice(name: str, value: object, shown: str) -> None:
    """Raise ConfigError, whose message calls the setting `shown`, if a setting cannot have the value."""
    if value not in CHOICES[name]:
        choices = " or ".join(map(repr, CHOICES[name]))
        raise ConfigError(f"Expected {shown} to be {choices}, but got {short_repr(value)}.")


def _from_environment() -> Settings:
    values = {field.name: os.environ.get(variable(field.name)) for field in fields(Settings)}
    chosen = {name: value for name, value in values.items() if value}
    for name, value in chosen.items():
        check_choice(name, value, f"the environment variable {variable(name)}")
    return Settings(**chosen)


program_settings = make_context(_from_environment())
"""The settings of this thread. `jsparse.config` changes them."""
