"""Entries that are not what was written: they are compiled again, and replaced."""

from __future__ import annotations

import os

import pytest
from compiler.cache.kernel import LINKER, RECIPE, compiled, files

import jsparse
from jsparse.compiler import cache
from jsparse.compiler.cache import entry

FIXED = entry.FIXED


@pytest.mark.sampled(3)
@pytest.mark.parametrize("length", [0, 1, 7, 8, 12, 43, 44, 75, FIXED - 33, FIXED - 1, FIXED, FIXED + 9, -300, -1])
def test_a_truncated_entry_is_compiled_again(folder, length):
    assert compiled()
    (file,) = files(folder)
    whole = file.read_bytes()
    file.write_bytes(whole[:length])
    assert compiled()
    assert file.read_bytes() == whole
    file.write_bytes(whole + b"\0")
    assert compiled()
    assert not compiled()


def test_a_flipped_bit_anywhere_is_found(folder):
    assert compiled()
    (file,) = files(folder)
    whole, found = file.read_bytes(), entry.key_of(RECIPE, LINKER)
    assert entry.read_entry(found, whole)
    for place in [*range(FIXED + 40), *range(FIXED + 40, len(whole), 7)]:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << place % 8
        assert entry.read_entry(found, bytes(flipped)) is None
    for place in (0, 9, 20, 50, 78, 84, FIXED - 1, FIXED + 1, len(whole) // 2, len(whole) - 1):
        flipped = bytearray(whole)
        flipped[place] ^= 16
        file.write_bytes(flipped)
        assert compiled()
        assert file.read_bytes() == whole


def test_other_things_in_the_place_of_an_entry(folder, tmp_path):
    assert compiled()
    (file,) = files(folder)
    whole = file.read_bytes()
    (tmp_path / "other").write_bytes(whole)
    for make in (lambda: file.symlink_to(tmp_path / "other"), lambda: os.mkfifo(file)):
        file.unlink()
        make()
        assert compiled()  # neither followed nor waited for
        assert file.read_bytes() == whole
        assert file.is_file()
        assert not file.is_symlink()
    file.unlink()
    file.mkdir()
    with pytest.warns(jsparse.CacheWarning, match="Is a directory"):
        assert compiled()
    assert compiled()
    assert files(folder) == [file]


def test_an_entry_under_another_name_is_not_taken(folder):
    assert compiled()
    (file,) = files(folder)
    other = entry.key_of(RECIPE + " ", LINKER)
    file.rename(folder / f"{other.name}.kernel")
    assert cache.load(RECIPE + " ", LINKER) is None
    assert compiled()


def test_object_code_that_does_not_link_is_compiled_again(folder):
    assert compiled()
    whole = files(folder)[0].read_bytes()
    code = cache.load(RECIPE, LINKER).object_code
    cache.save(RECIPE, entry.StoredKernel(code.replace(b"\0kernel\0", b"\0lenrek\0"), [1]), LINKER)
    assert compiled()
    assert files(folder)[0].read_bytes() == whole
