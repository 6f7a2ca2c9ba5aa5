"""Serialization of a kernel: reading gives exactly the kernel that was written, or None for any other bytes.

header      magic, format, environment, recipe (two digests), count of signature numbers, length of object code
checksum    SHA-256 of header, signature and object code
signature   64-bit integers (see `compiler.signature`)
object code

All numbers are little-endian. The checksum detects accidents (a torn write, flipped bits), not attacks: against those,
a folder that others can write to is refused (`folder.py`).
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

__all__ = ["FORMAT", "HEADER", "MAGIC", "Key", "StoredKernel", "environment_of", "read_entry", "write_entry"]

MAGIC = b"jsparse\n"
FORMAT = 1
HEADER = struct.Struct("<8sI32s32sIQ")
CHECKSUM = hashlib.sha256().digest_size
FIXED = HEADER.size + CHECKSUM


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
    """A kernel as the cache stores it: object code that needs no further compilation, and its signature."""

    object_code: bytes
    signature: list[int]


def write_entry(key: Key, kernel: StoredKernel) -> bytes:
    """The bytes of an entry. Raises struct.error if a number of the signature exceeds 64 bits, which no buffer fits."""
    numbers, code = kernel.signature, kernel.object_code
    header = HEADER.pack(MAGIC, FORMAT, key.environment, key.recipe, len(numbers), len(code))
    body = struct.pack(f"<{len(numbers)}q", *numbers) + code
    return header + hashlib.sha256(header + body).digest() + body


def read_entry(key: Key, data: bytes) -> StoredKernel | None:
    """The kernel of an entry, or None if the bytes are no whole entry of this key."""
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
    """The environment's digest in an entry's header, or None if the bytes are no header."""
    if len(data) < HEADER.size:
        return None
    magic, version, environment, *_ = HEADER.unpack_from(data)
    return bytes(environment) if (magic, version) == (MAGIC, FORMAT) else None
