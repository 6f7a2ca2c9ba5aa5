"""What the run time asks of the cache. Whatever is wrong with the folder, kernels are compiled."""

from __future__ import annotations

import struct
import warnings
from typing import NamedTuple

from jsparse.compiler.backends.backend import Linker
from jsparse.compiler.backends.table import BACKENDS
from jsparse.compiler.cache.entry import StoredKernel, environment_of, read_entry, write_entry
from jsparse.compiler.cache.folder import Folder
from jsparse.compiler.cache.key import environment, key_of
from jsparse.compiler.cache.place import place
from jsparse.errors import CacheError, CacheWarning, represented

__all__ = ["Report", "clear", "load", "report", "save"]

_warned: list[str] = []  # the one warning of this process


def load(recipe: str, linker: Linker) -> StoredKernel | None:
    """The kernel of a recipe that some process saved for such a linker on a machine of this kind, or None."""
    folder = place.folder()
    if folder is None or (key := key_of(recipe, linker)) is None:
        return None
    try:
        data = folder.read(key.name)
    except OSError as error:
        _warn(folder, error)
        return None
    return None if data is None else read_entry(key, data)


def save(recipe: str, kernel: StoredKernel, linker: Linker) -> None:
    """Keep a kernel for a linker."""
    folder = place.folder()
    if folder is None or (key := key_of(recipe, linker)) is None:
        return
    try:
        folder.write(key.name, write_entry(key, kernel))
    except struct.error:  # it will fail where its buffers are bound, with a message of its own
        return
    except OSError as error:
        _warn(folder, error)


def clear() -> int:
    """Remove all kernels from the folder; how many these were. Raises CacheError if it does not let that happen."""
    folder = place.folder()
    if folder is None:
        return 0
    try:
        return folder.clear()
    except OSError as error:
        raise _failed("remove compiled kernels from", folder, error) from error


class Report(NamedTuple):
    """How many entries the folder has, how many of them this process would take, their bytes, and what it asks for."""

    entries: int
    usable: int
    nbytes: int
    environment: str


def report() -> Report:
    """What is in the folder. Raises CacheError if it cannot be read."""
    folder = place.folder()
    linkers = [backend.linker for backend in BACKENDS.values() if backend.linker is not None]
    wanted = "\n\n".join(environment(linker) or "no sources" for linker in linkers)
    if folder is None:
        return Report(0, 0, 0, wanted)
    try:
        nbytes, headers = folder.summary()
    except OSError as error:
        raise _failed("look at compiled kernels in", folder, error) from error
    keys = [key_of("", linker) for linker in linkers]
    ours = {key.environment for key in keys if key is not None}
    usable = sum(environment_of(header) in ours for header in headers)
    return Report(len(headers), usable, nbytes, wanted)


def _failed(task: str, folder: Folder, error: OSError) -> CacheError:
    return CacheError(f"Expected to {task} {represented(folder.path)}, but got {_described(error)}.")


def _described(error: OSError) -> str:
    """What went wrong, in the system's words or in ours."""
    return f"the error {error.strerror!r}" if error.strerror else str(error)


def _warn(folder: Folder, error: OSError) -> None:
    """Say once in a process that kernels are not kept. Whoever makes warnings errors gets an error, once."""
    if _warned:
        return
    _warned.append(
        f"Expected to keep compiled kernels in {represented(folder.path)}, but got {_described(error)}. "
        "What this process compiles is kept in its memory only. Set jsparse.config.cache_dir, or the environment "
        "variable JSPARSE_CACHE_DIR, to a folder of your own that nobody else can write to, or to '' for none."
    )
    warnings.warn(_warned[0], CacheWarning, stacklevel=2)
