"""The key of a kernel: digests of its recipe and of everything else that its machine code depends on."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from functools import cache, cached_property
from io import FileIO
from pathlib import Path

from jsparse._version import __version__
from jsparse.base import _native
from jsparse.compiler.backends.backend import Linker
from jsparse.compiler.cache.entry import FORMAT, Key

__all__ = ["Sources", "environment", "key_of"]

PACKAGES = ("base", "compiler", "formats", "notation")  # the packages whose code turns a recipe into machine code


class Sources:
    """The source files of the code generator, and the time at which this process loaded them."""

    def __init__(self, root: str, loaded: float | None = None) -> None:
        self.root, self.loaded = root, time.time() if loaded is None else loaded

    @cached_property
    def digest(self) -> str | None:
        """A digest of the files' contents; None without files, as when Python runs from an archive. It takes 1.5 ms.

        A digest of modification times would take a tenth of that, but some installers set all of them to one constant.
        """
        found = hashlib.sha256()
        try:
            paths = sorted(file.path for file in self._files())
            for path in paths:
                with FileIO(path) as file:
                    content = file.readall()
                found.update(f"{path[len(self.root) :]}:{len(content)}:".encode() + content)
        except OSError:
            return None
        return found.hexdigest() if paths else None

    def are_those_loaded(self) -> bool:
        """Whether no file has changed since this process loaded them. It takes 0.3 ms.

        If one has changed, the module in memory may be the old or the new version. The check reads the time of the
        inode's last change, because copying may preserve the time of modification.
        """
        try:
            return all(file.stat().st_ctime <= self.loaded for file in self._files())
        except OSError:
            return False

    def _files(self) -> Iterator[os.DirEntry[str]]:
        return (file for package in PACKAGES for file in _python_files(f"{self.root}/{package}"))


_sources = Sources(str(Path(__file__).parents[2]))


def key_of(recipe: str, linker: Linker) -> Key | None:
    """The key of a kernel whose object code `linker` takes; None if the sources are unknown or changed."""
    found = environment(linker)
    if found is None or not _sources.are_those_loaded():
        return None
    return Key(_digest(found), hashlib.sha256(recipe.encode()).digest())


@cache
def environment(linker: Linker) -> str | None:
    """The versions, the sources and a linker's target as text; None if there are no sources."""
    if _sources.digest is None:
        return None
    own = f"entry {FORMAT}\njsparse {__version__}\nsources {_sources.digest}\nabi {_native.ABI}"
    return f"{own}\n{linker.target()}"


@cache
def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _python_files(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        for file in found:
            if file.name.endswith(".py"):
                yield file
            elif file.is_dir() and file.name != "__pycache__":
                yield from _python_files(file.path)
