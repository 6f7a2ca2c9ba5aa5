"""A kernel in the cache: its key, and its bytes.

The key is made of digests of the kernel's recipe and of everything else that its machine code depends on.

`read_entry` returns exactly the kernel that was written, or None if the bytes are not a whole entry with these parts:

header      magic, format, environment, recipe (two digests), count of signature numbers, length of object code
checksum    SHA-256 of header, signature and object code
signature   64-bit integers (see `compiler.signature`)
object code

All numbers are little-endian. The checksum detects accidents (a torn write, flipped bits), not attacks. Against
attacks, a folder to which others can write is refused (`folder.py`).
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
from collections.abc import Iterator
from functools import cache, cached_property
from io import FileIO
from pathlib import Path

from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.compiler.backends.backend import Linker

MAGIC = b"jsparse\n"
FORMAT = 1
HEADER = struct.Struct("<8sI32s32sIQ")
CHECKSUM = hashlib.sha256().digest_size
FIXED = HEADER.size + CHECKSUM

PACKAGES = ("base", "compiler", "formats", "notation")  # the packages whose code turns a recipe into machine code


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a kernel: the digests of its environment and of its recipe."""

    environment: bytes
    recipe: bytes

    @property
    def name(self) -> str:
        """The name of the file, without its suffix."""
        return hashlib.sha256(self.environment + self.recipe).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredKernel:
    """A kernel as the cache stores it: object code that only has to be linked, and its signature."""

    object_code: bytes
    signature: list[int]


def write_entry(key: Key, kernel: StoredKernel) -> bytes:
    """Return an entry's bytes. Raises struct.error if a number in the signature exceeds 64 bits.

    No buffer is as large, so such a kernel cannot be called.
    """
    numbers, code = kernel.signature, kernel.object_code
    header = HEADER.pack(MAGIC, FORMAT, key.environment, key.recipe, len(numbers), len(code))
    body = struct.pack(f"<{len(numbers)}q", *numbers) + code
    return header + hashlib.sha256(header + body).digest() + body


def read_entry(key: Key, data: bytes) -> StoredKernel | None:
    """Return the kernel of an entry, or None if the bytes are not a complete entry of this key."""
    if len(data) < FIXED:
        return None
    header, checksum, body = data[: HEADER.size], data[HEADER.size : FIXED], data[FIXED:]
    magic, version, environment, recipe, count, length = HEADER.unpack(header)
    if (magic, version, environment, recipe) != (MAGIC, FORMAT, key.environment, key.recipe):
        return None
    if len(body) != 8 * count + length or hashlib.sha256(header + body).digest() != checksum:
        return None
    return StoredKernel(body[8 * count :], list(struct.unpack_from(f"<{count}q", body)))


def environment_of(data: bytes) -> bytes | None:
    """Return the environment's digest from an entry's header, or None if the bytes are not a header."""
    if len(data) < HEADER.size:
        return None
    magic, version, environment, *_ = HEADER.unpack_from(data)
    return bytes(environment) if (magic, version) == (MAGIC, FORMAT) else None


class Sources:
    """The source files of the code generator, and the time at which this process loaded them."""

    def __init__(self, root: str, loaded: float | None = None) -> None:
        self.root, self.loaded = root, time.time() if loaded is None else loaded

    @cached_property
    def digest(self) -> str | None:
        """A digest of the files' contents; None if there are no files (Python runs from an archive).

        Computing it takes 1.5 ms. A digest of modification times would take a tenth of that time, but some installers
        set all times to one constant.
        """
        digest = hashlib.sha256()
        try:
            paths = sorted(file.path for file in self._files())
            for path in paths:
                with FileIO(path) as file:
                    content = file.readall()
                digest.update(f"{path[len(self.root) :]}:{len(content)}:".encode() + content)
        except OSError:
            return None
        return digest.hexdigest() if paths else None

    def are_those_loaded(self) -> bool:
        """Whether no file has changed since this process loaded the files. The check takes 0.3 ms.

        If a file has changed, the module in memory may be the old or the new version. The check reads the time of the
        inode's last change, because copying may preserve the time of modification.
        """
        try:
            return all(file.stat().st_ctime <= self.loaded for file in self._files())
        except OSError:
            return False

    def _files(self) -> Iterator[os.DirEntry[str]]:
        folders = [f"{self.root}/{package}" for package in PACKAGES]
        while folders:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.name.endswith(".py"):
                        yield entry
                    elif entry.is_dir() and entry.name != "__pycache__":
                        folders.append(entry.path)


_sources = Sources(str(Path(__file__).parents[2]))


def key_of(recipe: str, linker: Linker) -> Key | None:
    """The key of a kernel whose object code `linker` can link; None if the sources are unknown or have changed."""
    text = environment(linker)
    if text is None or not _sources.are_those_loaded():
        return None
    return Key(_digest(text), hashlib.sha256(recipe.encode()).digest())


@cache
def environment(linker: Linker) -> str | None:
    """The environment as text: entry format, digest of the sources, ABI, linker's target; None if there are no sources.

    The version of jsparse is not included: the digest identifies the sources, and two versions may have the same
    sources.
    """
    if _sources.digest is None:
        return None
    return f"entry {FORMAT}\nsources {_sources.digest}\nabi {_native.ABI}\n{linker.target()}"


@cache
def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
