"""The on-disk cache of kernels' object code, shared by processes. Errors of the folder never stop a compilation.

    entry.py     one kernel: the digest of everything that its machine code depends on, and its bytes, which are checked
                 when they are read
    folder.py    files that are read, published and removed while other processes do the same; the folder that this
                 process uses

Nothing here needs JAX.
"""

from __future__ import annotations

import struct
import warnings
from typing import NamedTuple

from jsparse.compiler.backends import BACKENDS
from jsparse.compiler.backends.backend import Linker
from jsparse.compiler.cache.entry import StoredKernel, environment, environment_of, key_of, read_entry, write_entry
from jsparse.compiler.cache.folder import Folder, UnsafeFileError, location
from jsparse.errors import CacheError, CacheWarning, short_repr

__all__ = ["Report", "clear", "load", "location", "report", "save"]

_warned: list[str] = []  # the one warning that this process has given
_IN_MEMORY = (
    "Kernels that this process compiles are kept only in its memory. Set jsparse.config.cache_dir, or the environment "
    "variable JSPARSE_CACHE_DIR, to a folder of yours that nobody else can write to, or to '' to use no folder."
)
_REPLACED = (
    "It was not loaded; the kernel is compiled again and replaces it. If the files were copied here, empty the folder: "
    "python -m jsparse cache --clear."
)


def load(recipe: str, linker: Linker) -> StoredKernel | None:
    """Load the kernel of a recipe. Returns None if no kernel is saved for this CPU, this compiler and these sources."""
    folder = location.folder()
    if folder is None or (key := key_of(recipe, linker)) is None:
        return None
    try:
        data = folder.read(key.name)
    except UnsafeFileError as error:
        _warn(folder, error, _REPLACED)
        return None
    except OSError as error:
        _warn(folder, error)
        return None
    return None if data is None else read_entry(key, data)


def save(recipe: str, kernel: StoredKernel, linker: Linker) -> None:
    """Save a kernel whose object code `linker` can link."""
    folder = location.folder()
    if folder is None or (key := key_of(recipe, linker)) is None:
        return
    try:
        folder.write(key.name, write_entry(key, kernel))
    except struct.error:  # the kernel's signature is invalid; binding its buffers will raise the error
        return
    except OSError as error:
        _warn(folder, error)


def clear() -> int:
    """Remove all kernels from the cache's folder. Returns their number. Raises CacheError if they cannot be removed."""
    folder = location.folder()
    if folder is None:
        return 0
    try:
        return folder.clear()
    except OSError as error:
        raise _cache_error("remove compiled kernels from", folder, error) from error


class Report(NamedTuple):
    """The number of cached kernels, how many of them this process can use, and the bytes of all files of the cache.

    `environment` describes what machine code depends on in this process: the sources, the compilers and the CPU.
    """

    entries: int
    usable: int
    nbytes: int
    environment: str


def report() -> Report:
    """Summarize the cache's folder. Raises CacheError if the folder cannot be read."""
    folder = location.folder()
    linkers = [backend.linker for backend in BACKENDS.values() if backend.linker is not None]
    environments = "\n\n".join(environment(linker) or "no sources" for linker in linkers)
    if folder is None:
        return Report(0, 0, 0, environments)
    try:
        nbytes, headers = folder.summary()
    except OSError as error:
        raise _cache_error("look at compiled kernels in", folder, error) from error
    keys = [key_of("", linker) for linker in linkers]
    ours = {key.environment for key in keys if key is not None}
    usable = sum(environment_of(header) in ours for header in headers)
    return Report(len(headers), usable, nbytes, environments)


def _cache_error(task: str, folder: Folder, error: OSError) -> CacheError:
    return CacheError(
        f"Expected to {task} {short_repr(folder.path)}, but got {_describe_error(error)}. Set "
        f"jsparse.config.cache_dir to another folder, or repair this one."
    )


def _describe_error(error: OSError) -> str:
    """Describe an error by the system's text if there is one, else by the error's own message."""
    return f"the error {error.strerror!r}" if error.strerror else str(error)


def _warn(folder: Folder, error: OSError, consequence: str = _IN_MEMORY) -> None:
    """Warn once per process that kernels are not kept, or not loaded. If warnings are errors, this raises once."""
    if _warned:
        return
    _warned.append(
        f"Expected to keep compiled kernels in {short_repr(folder.path)}, but got {_describe_error(error)}. "
        f"{consequence}"
    )
    warnings.warn(_warned[0], CacheWarning, stacklevel=2)
