"""The settings of jsparse, `jsparse.config`, and `jsparse.clear_cache`, which drops plans and compiled kernels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import fields, replace
from operator import index
from pathlib import Path
from typing import Any

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import forget_everything
from jsparse.base.progress import progress
from jsparse.compiler import cache
from jsparse.compiler.backends import FALLBACK, fault
from jsparse.compiler.cache import location
from jsparse.compiler.runtime import kernel_call as runtime
from jsparse.errors import ConfigError, short_repr
from jsparse.program_settings import KERNELS, PORTABLE, Settings, check_choice, program_settings, variable

__all__ = ["Config", "clear_cache", "config", "logged"]


def _path(value: object, shown: str) -> str | None:
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if path is None or (isinstance(path, str) and not path):
        return None
    if not isinstance(path, str) or "\0" in path:
        raise ConfigError(
            f"Expected {shown} to be a path, or '' for none, but got {short_repr(value)}. Pass a str or a Path."
        )
    try:
        return str(Path(path).expanduser().absolute())
    except (OSError, RuntimeError) as error:  # the current folder was removed, or the user has no home directory
        raise ConfigError(f"Expected {shown} to be an absolute path, but got {short_repr(value)}: {error}.") from error


def _bytes(value: Any, shown: str) -> int:
    with suppress(TypeError, ValueError):
        number = int(value) if isinstance(value, str) else index(value)
        if number > 0 and not isinstance(value, bool):
            return number
    raise ConfigError(f"Expected {shown} to be a positive number of bytes, but got {short_repr(value)}.")


def _flag(value: object, shown: str) -> bool:
    flag = {"1": True, "true": True, "0": False, "false": False}.get(str(value).lower())
    if flag is None or not isinstance(value, (bool, str)):
        raise ConfigError(f"Expected {shown} to be True or False, but got {short_repr(value)}.")
    return flag


@dataclass
class _Logged:
    """The settings of logging."""

    log_compiles: bool = False


logged = _Logged()
"""The settings of what this process logs. Access to them takes less time than `config.log_compiles`."""

PROCESS: dict[str, tuple[object, Callable[[Any, str], Any]]] = {
    "cache_dir": (location, _path),
    "cache_bytes": (location, _bytes),
    "log_compiles": (logged, _flag),
    "progress": (progress, _flag),
}
"""Name of a setting of the process, which changes no program → the object that has it, and the check of its value."""

TRACED = tuple(field.name for field in fields(Settings))
NAMES = (*TRACED, *PROCESS)


class Config:
    """The settings of jsparse.

        >>> jsparse.config.bounds = "clamp"           # everywhere
        >>> with jsparse.config(bounds="check"):      # in this thread, inside the block
        ...     y = A @ x

    Settings take effect at the next call, also for functions that are jitted already: JAX keeps a program for each
    value of `bounds`, `backend`, `blocks`, `tiles`, `overflow` and `autotune`. All other settings belong to the entire
    process: they change no program, and can be assigned but not set for a `with` block. All settings are read at import
    from environment variables such as JSPARSE_BOUNDS=check.

    Attributes:
        bounds: how programs treat the index arrays of dynamic tensors. "clamp" (the default): kernels stay within
            their arrays whatever the index arrays hold, and entries out of range contribute nothing. The result of
            invalid (for example, unsorted) index arrays is undefined. "check": each operation checks the index arrays
            in full, and fails if they are invalid. That costs about as much as reading them a few times.
        backend: how kernels run. "llvm" (the default): as machine code for this CPU. "interpret": Python executes them,
            statement by statement, thousands of times slower. Compare results with it if you doubt the machine code.
            The extension's routines and XLA's computations run as always. "xla": programs have XLA operations in place
            of kernels, as on all platforms other than CPU (docs/concepts/platforms.md). Results that are known while a
            program is traced, such as the pattern of a product, are still computed by machine code.
        blocks: how programs for CUDA and TPUs multiply patterns of dense blocks by arrays. "xla" (the default): by XLA
            operations, as on all platforms other than CPU. "pallas": by a kernel of jsparse, if the kernel supports the
            sizes of the blocks (docs/concepts/platforms.md). The kernel for TPUs has never been run on a device.
        tiles: how programs with XLA operations compute fused chains on one static pattern, such as sparse attention: as
            products of dense tiles, whose padding is masked, or entry by entry. "auto" (the default): by tiles under
            the backend "xla" if most of their elements are stored, and on other platforms than CPU only if the index
            arrays of the entries would be too large as constants. "on": by tiles wherever that is possible. "off":
            never. Tiles have been measured on CPUs only (docs/concepts/platforms.md).
        overflow: what a compiled program does if a result of integers or booleans has more entries than its capacity
            `nse`. Floats become NaN, but integers and booleans have no NaN. "raise" (the default): the program fails on
            CPU, with an error that names the tensor and the number of its entries. On other platforms, programs cannot
            fail, so they do what "cut" does. "cut": the entries that exceed the capacity are missing, and only
            `SparseTensor.overflowed` says so. Calls outside jit raise an error under both values.
        autotune: whether kernels use the schedules that `jsparse.autotune` found. "off" (the default): the scheduler
            chooses by estimated cost. "use": a kernel uses the schedule that `cache_dir` keeps for its problem, this
            CPU and patterns like its own, if there is one (docs/how_to/autotune.md).
        cache_dir: the folder in which compiled kernels are kept for later processes (docs/concepts/cache.md): an
            absolute path, by default the user's cache folder, such as ~/.cache/jsparse. The first compiled kernel
            creates the folder. No other user may have write access, because the folder holds machine code. None or ""
            (also in the environment): kernels are kept in memory only.
        cache_bytes: the maximum total size of the files in the folder, in bytes; by default 256 MiB. The least recently
            used files are removed.
        log_compiles: log each statement that is planned for new shapes, formats or patterns, and how these differ from
            the earlier ones, as warnings of the logger "jsparse". The log thus says which pattern made JAX compile a
            program again (docs/concepts/static_or_dynamic.md). By default it is False. Statements that JAX traces again
            for the same operands are logged as information.
        progress: show a line on stderr while kernels are compiled, tensors are converted or files are read, as soon as
            the work has taken two seconds. By default it is True. Nothing is shown where stderr is not a terminal.

    Raises ConfigError for an unknown value, AttributeError for an unknown setting.
    """

    bounds: str
    backend: str
    blocks: str
    tiles: str
    overflow: str
    cache_dir: str | os.PathLike[str] | None
    cache_bytes: int
    log_compiles: bool
    progress: bool

    def __init__(self) -> None:
        if fault is not None:
            warnings.warn(
                f"Expected llvmlite, with which jsparse compiles kernels, but it cannot be loaded: {fault}. Programs "
                "use XLA operations in place of kernels and take several times as long. Install llvmlite.",
                RuntimeWarning,
                stacklevel=2,
            )
        for name in PROCESS:
            value = os.environ.get(variable(name))
            if value or (value is not None and name == "cache_dir"):  # an empty JSPARSE_CACHE_DIR means no folder
                _assign(name, value, f"the environment variable {variable(name)}")
        self.__dict__["_everywhere"] = program_settings.value

    @property
    def value(self) -> Settings:
        """All settings that change programs, with this thread's values."""
        settings = program_settings.value
        return settings if fault is None or settings.backend != KERNELS else replace(settings, backend=PORTABLE)

    @property
    def is_portable(self) -> bool:
        """Whether programs for CPU have XLA operations in place of kernels."""
        return self.value.backend == PORTABLE

    @property
    def generator(self) -> str:
        """The name of the code generator of kernels. The host uses kernels at tracing even if programs contain none."""
        return FALLBACK if self.is_portable else self.backend

    def __call__(self, **changes: str) -> AbstractContextManager[None]:
        """Set settings for this thread inside a `with` block. Raises ConfigError for unknown names or values."""
        return program_settings(_change_settings(self.value, changes))

    def __getattr__(self, name: str) -> Any:
        if name in PROCESS:
            return getattr(PROCESS[name][0], name)
        if name in TRACED:
            return getattr(self.value, name)
        raise AttributeError(_unknown(name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in NAMES:
            raise AttributeError(_unknown(name))
        if name in PROCESS:
            _assign(name, value, f"config.{name}")
            return
        self.__dict__["_everywhere"] = _change_settings(self._everywhere, {name: value})
        program_settings.set_global(self._everywhere)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *NAMES]

    def __repr__(self) -> str:
        return f"jsparse.config({', '.join(f'{name}={getattr(self, name)!r}' for name in NAMES)})"


def _assign(name: str, value: object, shown: str) -> None:
    """Assign a setting of the process. Raises ConfigError for a wrong value; the message calls the setting `shown`."""
    owner, checked = PROCESS[name]
    setattr(owner, name, checked(value, shown))


def _change_settings(settings: Settings, changes: dict[str, Any]) -> Settings:
    for name, value in changes.items():
        if name not in NAMES:
            raise ConfigError(_unknown(name))
        if name in PROCESS:
            raise ConfigError(
                f"Expected a setting that a thread can have for a block, but got {name}, which belongs to the whole "
                f"process. Assign it: jsparse.config.{name} = {short_repr(changes[name])}."
            )
        check_choice(name, value, f"config.{name}")
        if value == KERNELS and fault is not None:
            raise ConfigError(
                f"Expected llvmlite for config.{name} = {KERNELS!r}, but it cannot be loaded: {fault}. Install it, or "
                f"leave the setting at {PORTABLE!r}."
            )
    return replace(settings, **changes)


def _unknown(name: str) -> str:
    return f"Expected one of the settings {', '.join(NAMES)} of jsparse.config, but got {short_repr(name)}."


def clear_cache(disk: bool = False) -> None:
    """Drop all cached statements, plans, compiled kernels and programs of calls outside jit, with their patterns.

    Later calls plan and compile again. Programs that `jax.jit` has compiled keep their kernels and patterns: see
    `jax.clear_caches`.

        >>> jsparse.clear_cache()

    Args:
        disk: also remove all kernels from `jsparse.config.cache_dir`, of every version of jsparse. By default they are
            kept, and later calls read them from there.

    Raises:
        CacheError: the folder cannot be emptied.
    """
    forget_everything()
    runtime.clear_cache()
    if disk:
        cache.clear()


config = Config()
"""The settings of this process and thread."""
