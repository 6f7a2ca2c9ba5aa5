"""Damaged and hostile files, each read in a process with little memory.

Bits are flipped, ends cut off, numbers exchanged for others, archives changed under a right digest, and small files
unpack to large ones. Each is read as a valid tensor, or refused by an error of ours. `make test-hostile` tries more of
them, by `python tests/io/test_hostile_files.py COUNT SEED`.
"""

from __future__ import annotations

import gzip
import io
import random
import re
import resource
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import jsparse
from jsparse.io.npz import _digest
from jsparse.tensor.composed import dynamic_patterns

LIMIT = 1 << 23  # max_bytes= of each file
ROOM = 1 << 29  # the memory that the process may take beyond what it has, most of it for XLA's programs
NUMBERS = [0, 1, 3, -1, 2**31 - 1, 2**31, 2**32 + 1, 300_000_000, 2**40, 2**53, 2**62 - 1, 2**62, 2**63 - 1, 2**63]
NUMBERS += [2**64 - 1, 2**64, 10**30, "1e400", "nan", "-inf", "1_0", "x", "", "\r", "\0", "%", "#", "1 " * 70]
SIZE = 1 << 25  # the bytes that small files unpack to
FORMATS = (None, "csr", "csc", "coo", "dcsr", "(i, j) -> (i : dense, j : range)", "(i, j) -> (i : dense, j : dense)")
COMPOSED = ("bsr(2, 3)", "dbsr(2, 2)", "ell", "group_coo(2)", "block_group_coo(2, 2, 3)", "hyb(2)")
HEADER = "%%MatrixMarket matrix "
TEXTS = {
    "general.mtx": HEADER + "coordinate real general\n% no more\n4 5 3\n1 2 1.5\n4 5 -2e3\n4 5 3\n",
    "integers.mtx": HEADER + "coordinate integer symmetric\n4 4 3\n2 1 9223372036854775807\n4 3 7\n4 4 1\n",
    "unsigned.mtx": HEADER + "coordinate unsigned-integer general\n4 4 2\n2 1 18446744073709551615\n4 3 7\n",
    "complex.mtx": HEADER + "coordinate complex hermitian\n4 4 2\n2 1 1 2\n3 3 7 0\n",
    "pattern.mtx": HEADER + "coordinate pattern skew-symmetric\n4 4 2\n2 1\n4 3\n".replace("skew-", ""),
    "array.mtx": HEADER + "array real general\n2 3\n1\n0\n2.5\n0\n0\n-1\n",
    "triangle.mtx": HEADER + "array real skew-symmetric\n3 3\n1\n0\n2.5\n",
    "cube.tns": "# three\n1 2 3 1.5\n2 1 1 2\n\n1 2 3 -4\n",
    "matrix.tns": "1 2 1.5\n2 1 1\n",
}


def texts(rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Text files with some numbers exchanged, and with bytes changed."""
    while True:
        name, text = rng.choice(list(TEXTS.items()))
        words = re.split(r"(\s+)", text)
        for _ in range(rng.choice([0, 1, 1, 2, 4])):
            words[2 * rng.randrange(3, len(words) // 2)] = str(rng.choice(NUMBERS))
        data = damaged("".join(words).encode(), rng)
        packed = rng.random() < 0.3
        yield (f"{name}.gz", damaged(gzip.compress(data), rng)) if packed else (name, data)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes of which some are changed, or the end is missing, or nothing."""
    changed = bytearray(data)
    match rng.choice(["bits", "end", "cut", "nothing", "nothing"]):
        case "bits":
            for _ in range(rng.choice([1, 3])):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        case "end":
            del changed[rng.randrange(len(changed)) :]
        case "cut":
            start = rng.randrange(len(changed))
            del changed[start : start + rng.randrange(9)]
    return bytes(changed)


def archives(folder: Path, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Archives with arrays changed, retyped or in the other byte order, under a right digest, or with false headers."""
    A = jsparse.asarray(np.arange(30, dtype=np.float32).reshape(5, 6) % 4)
    kinds = [A, A.asformat("coo").dynamic(25).with_transpose(), A.dynamic(25), A.asformat(FORMATS[5]), A.astype("int8")]
    kinds += [A.astype("bfloat16"), A.asformat("dcsr").dynamic(30).with_transpose(), A.asformat(FORMATS[6])]
    blocks = jsparse.decompose(A, [(jsparse.block_fill(2, 3, 0.8), "bsr(2, 3)"), (None, "hyb(2)")])
    in_slots = [*map(A.asformat, COMPOSED), blocks, blocks.T]
    kinds += [*in_slots, *(kind.dynamic() for kind in in_slots), A.asformat("bsr(2, 3)").dynamic(60)]
    saved = []
    for kind in kinds:
        jsparse.save(folder / "made.npz", kind)
        with np.load(folder / "made.npz") as archive:
            saved.append({name: archive[name] for name in archive.files})
    while True:
        entries = dict(rng.choice(saved))
        for _ in range(rng.choice([0, 1, 1, 2, 3])):
            change(entries, rng)
        entries["digest"] = np.array(_digest({name: x for name, x in entries.items() if name != "digest"}))
        file = io.BytesIO()
        (np.savez if rng.random() < 0.5 else np.savez_compressed)(file, **entries)
        data = file.getvalue()
        if rng.random() < 0.2:
            data = lying(data, rng)
        yield "A.npz", damaged(data, rng) if rng.random() < 0.5 else data


def change(entries: dict[str, np.ndarray], rng: random.Random) -> None:
    name = rng.choice([name for name in entries if name != "digest"])
    array = np.array(entries[name])
    numbers = [n for n in NUMBERS if isinstance(n, int) and -(2**63) <= n < 2**63]
    match rng.choice(["number", "number", "dtype", "order", "length", "text", "shape", "gone"]):
        case "number" if array.dtype.kind in "iu" and array.size:
            wide = array.astype(np.int64).reshape(-1)
            wide[rng.randrange(array.size)] = rng.choice(numbers)
            with np.errstate(all="ignore"):
                array = wide.reshape(array.shape).astype(array.dtype)
        case "dtype" if array.dtype.kind != "U":
            with np.errstate(all="ignore"):
                array = array.astype(rng.choice(["f4", "i8", "u4", "i2", "c8", "?", "U5", "u8", "f2", "S3", "M8[s]"]))
        case "order":
            array = array.astype(array.dtype.newbyteorder(">"))
        case "length":
            array = np.resize(array, rng.choice([0, 1, 25, 1000]))
        case "text":
            words = [
                "dynamic",
                "transposed",
                "static",
                "composed",
                "float64",
                "bool",
                "csf",
                FORMATS[5],
                "x",
                "ell",
                "hyb",
            ]
            array = np.array(rng.choice(words))
        case "shape":
            entries["shape"] = np.array([rng.choice(numbers), rng.choice(numbers)])
            return
        case "gone":
            del entries[name]
            return
    entries[name] = array


def lying(data: bytes, rng: random.Random) -> bytes:
    """An archive with an array whose header claims a large shape, or with a member of another length than it says."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as out:
        for info in given.infolist():
            content = given.read(info)
            if rng.random() < 0.3:
                shape = re.search(rb"'shape': \((\d*),?\), }", content)
                if shape:
                    claimed = b"'shape': (%d,), }" % rng.choice([2**31, 2**40, 2**62])
                    content = content.replace(shape[0] + b" " * (len(claimed) - len(shape[0])), claimed)
            if rng.random() < 0.05:
                content += bytes(SIZE)
            out.writestr(info.filename, content)
    changed = bytearray(made.getvalue())
    if rng.random() < 0.5:  # the length of a member in the directory
        at = changed.rfind(b"PK\1\2")
        changed[at + 24 : at + 28] = rng.choice([0, 9, 2**31, 2**32 - 1]).to_bytes(4, "little")
    return bytes(changed)


def bombs() -> Iterator[tuple[str, bytes]]:
    """Small files that unpack to 32 MiB."""
    for line in (b"1 1 1\n", b"# nothing\n", b"\n", b"1", b"1 ", b"\0"):
        yield "A.tns.gz", gzip.compress(line * ((SIZE) // len(line)), 1)
    header = (HEADER + "coordinate real general\n").encode()
    yield "A.mtx.gz", gzip.compress(header + b"9 9 4000000\n" + b"1 1 1\n" * 4_000_000, 1)
    yield "A.mtx.gz", gzip.compress(header + b"%" * (SIZE), 1)
    yield "A.mtx", (HEADER + "array real general\n0 300000000\n").encode()
    yield "A.mtx", (HEADER + "array real general\n300000000 0\n").encode()
    yield "A.tns", b"300000000 1 1\n"


def read(path: Path, format: str | None) -> bool:
    """Read a file. The result says whether it holds a tensor, which is valid."""
    try:
        A = jsparse.load(path, format, max_bytes=LIMIT)
    except (jsparse.FormatError, jsparse.NotYetSupportedError):  # such as another number of dimensions than the file's
        assert format is not None
        return False
    except (jsparse.FileFormatError, jsparse.DTypeError) as error:
        named = str(path) in str(error) or "jax_enable_x64" in str(error)
        assert named, error  # noqa: PT017
        assert "enough memory" not in str(error), error  # noqa: PT017  it was refused before
        return False
    if not A.is_dynamic:
        A.validate()
    for pattern in dynamic_patterns(A.pattern):
        if not pattern.has_overflowed:
            pattern.validate()
    return True


def confine(room: int) -> None:
    """Let this process take that much memory beyond what it has."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + room, resource.RLIM_INFINITY))


def main(folder: Path, count: int, seed: int) -> None:
    rng = random.Random(seed)
    streams = (texts(rng), archives(folder, rng))
    files = [next(streams[n % 2]) for n in range(count)]
    for name, data in bombs():
        path, is_empty = folder / name, data.endswith(b"0 300000000\n")
        path.write_bytes(data)
        del data
        confine(4 * LIMIT)
        assert read(path, None) == is_empty, name
        confine(ROOM)
    found = 0
    for name, data in files:
        format = rng.choice(FORMATS + COMPOSED) if "cube" not in name else None
        (folder / name).write_bytes(data)
        try:
            found += read(folder / name, format)
        except BaseException:
            print(f"{name} as {format}: {data[:3000]!r}", file=sys.stderr)
            raise
    assert count / 10 < found < count / 2, found
    print(f"{found:,} tensors of {count:,} files")


def test_files_in_a_process_with_little_memory(tmp_path):
    command = [sys.executable, __file__, "100", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as target:
        main(Path(target), int(sys.argv[1]), int(sys.argv[2]))
