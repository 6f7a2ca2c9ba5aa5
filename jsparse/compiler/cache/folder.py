"""A folder of entries that many processes read, write and empty at the same time, without locks.

A rename publishes an entry as a whole, and an entry never changes. A process that reads an entry while another process
removes it gets the whole entry or nothing. So the worst outcome of any order of events is that a kernel is compiled
again.

The owner and the mode of the folder are checked on an open descriptor, and all files are opened relative to that
descriptor. So nobody can exchange the folder after the check. A file is removed or appended to only if its name and its
first bytes show that it is a file of jsparse.

`location` says which folder this process uses.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from jsparse.base.dataclass import dataclass
from jsparse.compiler.cache.entry import HEADER, MAGIC

SUFFIX, PART = ".kernel", ".part"
OURS = re.compile(r"[0-9a-f]{64}\.kernel(\.[0-9a-f]+\.part)?")
WRITTEN = f"{0:064x}.written"  # a file that grows by MAGIC for every UNIT bytes that were written since the last sweep
UNIT = 2048
TOUCHED = 6 * 3600.0  # the resolution, in seconds, of an entry's time of last use
ABANDONED = 3600.0  # the age, in seconds, from which on a partial file is taken for a killed process's

KEPT = 3 / 4  # the part of `most_bytes` that a sweep keeps
SWEPT = 1 / 16  # the part of `most_bytes` after whose writing a sweep is due; it is also the size limit of an entry
# Between two sweeps there are at most 3/4 + 1/16 of the bytes, plus one entry that each process is writing. If a
# process is killed during a sweep, the next sweep is due after another 1/16.

READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # nonblocking, because the file may be a pipe
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
APPEND = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
OTHERS = stat.S_IWGRP | stat.S_IWOTH

MOST_BYTES = 256 << 20  # about 20,000 kernels


class RefusedError(OSError):
    """The folder is refused: other users can write machine code to it, or its path is unknown."""


class UnsafeFileError(OSError):
    """A kernel's file is not safe to load, because others can write machine code to it."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder, which need not exist, and its limit in bytes. Methods raise OSError if the folder is unusable."""

    path: str
    most_bytes: int

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if this user has no regular file of that name, or if it is too large.

        Raises UnsafeFileError if others may write to the file.
        """
        with suppress(FileNotFoundError), self._open() as folder, _open_file(folder, name + SUFFIX) as file:
            if file is None or (status := os.fstat(file.fileno())).st_size > self.most_bytes:
                return None
            if status.st_mode & OTHERS:
                raise UnsafeFileError(f"a file that others may write to ({name}{SUFFIX}, {_mode(status)})")
            data = file.read()
            if data.startswith(MAGIC) and abs(time.time() - status.st_mtime) > TOUCHED:
                with suppress(OSError):  # the folder may be read-only
                    os.utime(file.fileno())
            return data
        return None

    def write(self, name: str, data: bytes) -> None:
        """Publish a file, which replaces an older file of that name. Data over the size limit of entries is ignored."""
        if len(data) > self.most_bytes * SWEPT:
            return
        self._make()
        with suppress(FileNotFoundError), self._open() as folder:  # another process may empty or remove the folder
            is_due = self._is_due(folder, len(data))
            part = f"{name}{SUFFIX}.{os.urandom(8).hex()}{PART}"
            try:
                with os.fdopen(os.open(part, CREATE, 0o600, dir_fd=folder), "wb") as file:
                    file.write(data)
                # No fsync: it takes longer than compiling. After a power failure the file may be torn, which the
                # checksum detects.
                os.replace(part, name + SUFFIX, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(part, dir_fd=folder)
                raise
            if is_due:
                self._sweep(folder)

    def clear(self) -> int:
        """Remove all entries. Returns their number."""
        removed = 0
        with suppress(FileNotFoundError), self._open() as folder:
            for name in [WRITTEN, *(file.name for file in _files(folder))]:
                removed += _remove(folder, name) and name.endswith(SUFFIX)
        return removed

    def summary(self) -> tuple[int, list[bytes]]:
        """The total size of the files in bytes, and the header of each entry."""
        sizes, headers = [], []
        with suppress(FileNotFoundError), self._open() as folder:
            for file in _files(folder):
                with _open_file(folder, file.name) as opened:
                    if opened is not None and _is_ours(header := opened.read(HEADER.size)):
                        sizes.append(os.fstat(opened.fileno()).st_size)
                        headers += [header] * file.name.endswith(SUFFIX)
        return sum(sizes), headers

    @contextmanager
    def _open(self) -> Iterator[int]:
        """Open a descriptor of the folder. Raises RefusedError if others can write to it, or if its path is unknown."""
        self._check_path()
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid():
                raise RefusedError(f"a folder of the user with number {status.st_uid}")
            if status.st_mode & OTHERS:
                raise RefusedError(f"a folder that others may write to ({_mode(status)})")
            yield descriptor
        finally:
            os.close(descriptor)

    def _make(self) -> None:
        self._check_path()
        path = Path(self.path)
        with suppress(FileExistsError):  # exist_ok=True would fail if another process removed the folder meanwhile
            path.mkdir(0o700, parents=True)
        if path.is_symlink() and not path.exists():
            raise RefusedError("a link to nothing")

    def _check_path(self) -> None:
        if not Path(self.path).is_absolute():
            raise RefusedError("no home directory of this user in which to look for it")

    def _is_due(self, folder: int, written: int) -> bool:
        """Record how many bytes are to be written. Returns whether this process must call `_sweep` afterwards.

        All processes append to one file. When the file is long enough, the process that removes it must sweep. Raises
        RefusedError if that file is not a file of jsparse.
        """
        with os.fdopen(os.open(WRITTEN, APPEND, 0o600, dir_fd=folder), "r+b", 0) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode) or not _is_ours(file.read(len(MAGIC))):
                raise RefusedError(f"a file {WRITTEN} that jsparse did not write")
            file.write(MAGIC * -(-written // UNIT))
            units = os.fstat(file.fileno()).st_size // len(MAGIC)
        return units * UNIT > self.most_bytes * SWEPT and _remove(folder, WRITTEN)

    def _sweep(self, folder: int) -> None:
        """Remove abandoned partial files, and the least recently used entries until few enough bytes are left."""
        now, entries = time.time(), []
        for file in _files(folder):
            with suppress(FileNotFoundError):
                status = file.stat(follow_symlinks=False)
                if file.name.endswith(PART) and abs(now - status.st_mtime) > ABANDONED:
                    _remove(folder, file.name)
                elif not stat.S_ISDIR(status.st_mode):
                    entries.append((status.st_mtime, status.st_size, file.name))
        total = sum(size for _, size, _ in entries)
        for _, size, name in sorted(entries):
            if total <= self.most_bytes * KEPT:
                break
            if name.endswith(SUFFIX):
                _remove(folder, name)
                total -= size


@contextmanager
def _open_file(folder: int, name: str) -> Iterator[BinaryIO | None]:
    """Open a regular file of this user. Yields None for anything else, such as a link, which a later write replaces."""
    try:
        descriptor = os.open(name, READ, dir_fd=folder)
    except OSError:
        yield None
        return
    try:
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                yield file
        else:
            yield None
    finally:
        os.close(descriptor)


def _is_ours(first: bytes) -> bool:
    """Whether a file that begins with these bytes, or consists of them, is a file of jsparse."""
    return first[: len(MAGIC)] == MAGIC[: len(first)]


def _remove(folder: int, name: str) -> bool:
    """Remove a file of jsparse. Returns False if there is no such file, or if another process removed it first."""
    with _open_file(folder, name) as file:
        if file is None or not _is_ours(file.read(len(MAGIC))):
            return False
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
        return True
    return False


def _mode(status: os.stat_result) -> str:
    return f"its mode is {stat.S_IMODE(status.st_mode):o}"


def _files(folder: int) -> Iterator[os.DirEntry[str]]:
    """The entries and partial files in the folder."""
    with os.scandir(folder) as files:
        yield from (file for file in files if OURS.fullmatch(file.name))


class CacheLocation:
    """The settings of the cache in `jsparse.config`, which hold for the whole process."""

    def __init__(self) -> None:
        self.is_users = True  # use the user's default folder, which is looked up on first use
        self.chosen: str | None = None
        self.cache_bytes = MOST_BYTES

    @property
    def cache_dir(self) -> str | None:
        """The folder's path, or None if no folder is used."""
        return find_users_folder() if self.is_users else self.chosen

    @cache_dir.setter
    def cache_dir(self, path: str | None) -> None:
        self.chosen, self.is_users = path, False

    def folder(self) -> Folder | None:
        """The folder to read and write, or None if no folder is used."""
        path = self.cache_dir
        return None if path is None else Folder(path, self.cache_bytes)


@cache
def find_users_folder() -> str:
    """The jsparse folder in the user's cache directory."""
    import platformdirs  # noqa: PLC0415  it takes 2 ms, which importing jsparse avoids

    try:
        return platformdirs.user_cache_dir("jsparse")
    except RuntimeError:  # the user has no home directory; older releases of platformdirs return this path
        return "~/.cache/jsparse"


location = CacheLocation()
"""The location for this process."""
