"""A folder of entries that many processes read, write and empty at the same time, without locks.

An entry appears whole, by a rename, and never changes. Whoever reads one that is removed meanwhile has read it or has
not found it. So the worst that any order of events does is that a kernel is compiled once more.

Files are reached through a descriptor of the folder whose owner and mode were looked at, so nobody can exchange the
folder behind the check.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from jsparse.compiler.cache.entry import HEADER

__all__ = ["Folder", "RefusedError"]

SUFFIX, PART = ".kernel", ".part"
OURS = re.compile(r"[0-9a-f]{64}\.kernel(\.[0-9a-f]+\.part)?")  # no other file is ever removed
WRITTEN = "written"  # a file that grows by a byte for every UNIT that was written since entries were last removed
UNIT = 256
TOUCHED = 6 * 3600.0  # seconds: how exact the time of last use is
ABANDONED = 3600.0  # seconds after which nobody goes on writing a part

KEPT = 3 / 4  # of the bytes allowed, after entries were removed
SWEPT = 1 / 16  # of them: when so much was written, entries are removed; and no entry is larger
# Between two removals there are at most 3/4 + 1/16 of the bytes, and an entry that each process writes just then.
# A process that is killed while it removes entries leaves that to the next one, 1/16 later.

READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # nonblocking: what lies there may be a pipe
CREATE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class RefusedError(OSError):
    """Others can put machine code into the folder, or nobody knows where it is."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder, which need not exist, and the most bytes to keep in it. Methods raise OSError if it is not usable."""

    path: str
    most_bytes: int

    def read(self, name: str) -> bytes | None:
        """The content of a file, or None if there is none that can be trusted and read."""
        with suppress(FileNotFoundError), self._opened() as folder, _opened_file(folder, name + SUFFIX) as file:
            if file is None or (found := os.fstat(file.fileno())).st_size > self.most_bytes:
                return None
            data = file.read()
            if abs(time.time() - found.st_mtime) > TOUCHED:
                with suppress(OSError):  # where it may only be read
                    os.utime(file.fileno())
            return data
        return None

    def write(self, name: str, data: bytes) -> None:
        """Publish a file, in place of one of that name."""
        if len(data) > self.most_bytes * SWEPT:
            return
        self._make()
        with suppress(FileNotFoundError), self._opened() as folder:  # where another process empties or removes it
            part = f"{name}{SUFFIX}.{os.urandom(8).hex()}{PART}"
            try:
                with os.fdopen(os.open(part, CREATE | os.O_EXCL, 0o600, dir_fd=folder), "wb") as file:
                    file.write(data)
                # Without fsync, which takes longer than to compile: after a power failure the file may be torn, and
                # the checksum tells.
                os.replace(part, name + SUFFIX, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(part, dir_fd=folder)
                raise
            if self._is_due(folder, len(data)):
                self._sweep(folder)

    def clear(self) -> int:
        """Remove all entries; how many these were."""
        removed = 0
        with suppress(FileNotFoundError), self._opened() as folder:
            for name in [WRITTEN, *(file.name for file in _files(folder))]:
                with suppress(FileNotFoundError, IsADirectoryError):
                    os.unlink(name, dir_fd=folder)
                    removed += name.endswith(SUFFIX)
        return removed

    def summary(self) -> tuple[int, list[bytes]]:
        """The bytes of its files, and the first ones of each entry."""
        sizes, headers = [], []
        with suppress(FileNotFoundError), self._opened() as folder:
            for file in _files(folder):
                with _opened_file(folder, file.name) as opened:
                    if opened is not None:
                        sizes.append(os.fstat(opened.fileno()).st_size)
                        headers += [opened.read(HEADER.size)] * file.name.endswith(SUFFIX)
        return sum(sizes), headers

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """A descriptor of the folder, in which nobody else can have put anything."""
        self._check_path()
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if found.st_uid != os.geteuid():
                raise RefusedError(f"a folder of the user with number {found.st_uid}")
            if found.st_mode & 0o022:
                raise RefusedError(f"a folder that others may write to (its mode is {stat.S_IMODE(found.st_mode):o})")
            yield descriptor
        finally:
            os.close(descriptor)

    def _make(self) -> None:
        self._check_path()
        path = Path(self.path)
        with suppress(FileExistsError):  # and not exist_ok, which fails if another process removes it just then
            path.mkdir(0o700, parents=True)
        if path.is_symlink() and not path.exists():
            raise RefusedError("a link to nothing")

    def _check_path(self) -> None:
        if not Path(self.path).is_absolute():
            raise RefusedError("no home directory of this user to find it in")

    def _is_due(self, folder: int, written: int) -> bool:
        """Whether this process has to remove entries, now that it has written more bytes.

        All processes add to the length of one file. The one that removes it has the task.
        """
        with os.fdopen(os.open(WRITTEN, CREATE | os.O_APPEND | os.O_NONBLOCK, 0o600, dir_fd=folder), "ab", 0) as file:
            file.write(bytes(-(-written // UNIT)))
            units = os.fstat(file.fileno()).st_size
        if units * UNIT <= self.most_bytes * SWEPT:
            return False
        try:
            os.unlink(WRITTEN, dir_fd=folder)
        except FileNotFoundError:
            return False
        return True

    def _sweep(self, folder: int) -> None:
        """Remove what was not used for longest until there are few enough bytes, and what nobody goes on writing."""
        now, entries = time.time(), []
        for file in _files(folder):
            with suppress(FileNotFoundError):
                found = file.stat(follow_symlinks=False)
                if file.name.endswith(PART) and abs(now - found.st_mtime) > ABANDONED:
                    os.unlink(file.name, dir_fd=folder)
                elif not stat.S_ISDIR(found.st_mode):
                    entries.append((found.st_mtime, found.st_size, file.name))
        total = sum(size for _, size, _ in entries)
        for _, size, name in sorted(entries):
            if total <= self.most_bytes * KEPT:
                break
            if name.endswith(SUFFIX):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
                total -= size


@contextmanager
def _opened_file(folder: int, name: str) -> Iterator[BinaryIO | None]:
    """A file of this user; None if there is something else, or nothing that can be read. It will be replaced."""
    try:
        descriptor = os.open(name, READ, dir_fd=folder)
    except OSError:
        yield None
        return
    try:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                yield file
        else:
            yield None
    finally:
        os.close(descriptor)


def _files(folder: int) -> Iterator[os.DirEntry[str]]:
    """Entries and parts of entries."""
    with os.scandir(folder) as found:
        yield from (file for file in found if OURS.fullmatch(file.name))
