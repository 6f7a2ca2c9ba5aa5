"""Folders that cannot be used, and the settings that name one."""

from __future__ import annotations

import errno
import os
import warnings
from pathlib import Path

import llvmlite
import numpy as np
import pytest
from compiler.cache.kernel import compiled, files

import jsparse
from jsparse import __main__ as command
from jsparse.compiler.cache import location
from jsparse.compiler.cache.folder import Folder, find_users_folder


def fails(number, when):
    """What stands for `os.open`, and fails."""
    usual = os.open

    def opened(path, flags, *args, **kwargs):
        if flags & when:
            raise OSError(number, os.strerror(number), path)
        return usual(path, flags, *args, **kwargs)

    return opened


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_folder_that_cannot_be_written(folder, monkeypatch, number):
    assert compiled()
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fails(number, os.O_CREAT))
        assert not compiled()  # reading goes on
        files(folder)[0].unlink()
        with pytest.warns(jsparse.CacheWarning, match=f"deep/cache.*{os.strerror(number)}.*JSPARSE_CACHE_DIR") as found:
            assert [compiled(), compiled()] == [True, True]
        assert len(found) == 1
    assert compiled()
    assert not compiled()


def test_a_folder_that_can_only_be_read(folder, monkeypatch):
    """Times of last use cannot be kept there."""
    assert compiled()
    os.utime(files(folder)[0], (1, 1))

    def utime(*args, **kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(os, "utime", utime)
        assert not compiled()
    assert not compiled()
    assert files(folder)[0].stat().st_mtime > 1


def test_reading_fails(folder, monkeypatch):
    assert compiled()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", lambda *args, **kwargs: fails(errno.EIO, -1)("", -1))
        with pytest.warns(jsparse.CacheWarning, match="Input/output error"):
            assert compiled()


def refused(folder, monkeypatch, how):
    folder.parent.mkdir(exist_ok=True)
    if how == "link":
        folder.symlink_to(folder.parent / "nothing")
        return "a link to nothing"
    if how == "file":
        folder.write_text("")
        return "directory"
    folder.mkdir()
    if how == "owner":
        number = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: number + 1)
        return f"a folder of the user with number {number}"
    folder.chmod(0o777 if how == "all" else 0o775)
    return r"a folder that others may write to \(its mode is 77"


@pytest.mark.parametrize("how", ["file", "link", "owner", "all", "group"])
def test_a_folder_that_is_refused(folder, monkeypatch, how):
    expected = refused(folder, monkeypatch, how)
    with pytest.warns(jsparse.CacheWarning, match=expected) as found:
        assert [compiled(), compiled()] == [True, True]
    assert len(found) == 1
    assert not files(folder)
    if how == "link":  # there is nothing to remove
        jsparse.clear_cache(disk=True)
        return
    with pytest.raises(jsparse.CacheError, match=f"Expected to remove compiled kernels from .*{expected}"):
        jsparse.clear_cache(disk=True)


def test_a_user_without_home(monkeypatch):
    """Which the password database does not know either."""

    def unknown(*args):
        raise KeyError(*args)

    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setattr(location, "is_users", True)
    find_users_folder.cache_clear()
    with pytest.warns(jsparse.CacheWarning, match=r"in '~/.cache/jsparse', but got no home directory") as found:
        assert [compiled(), compiled()] == [True, True]
    assert len(found) == 1
    assert jsparse.config.cache_dir == "~/.cache/jsparse"
    find_users_folder.cache_clear()


def test_the_folder_that_the_system_has_for_a_user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "own"))
    monkeypatch.setattr(location, "is_users", True)
    find_users_folder.cache_clear()
    assert compiled()
    assert len(files(tmp_path / "own" / "jsparse")) == 1
    find_users_folder.cache_clear()


def test_no_folder(folder):
    for nothing in (None, ""):
        jsparse.config.cache_dir = nothing
        assert jsparse.config.cache_dir is None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert compiled()
            assert compiled()
    jsparse.clear_cache(disk=True)
    assert not folder.exists()


def test_a_symlinked_folder(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.parent.mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    assert compiled()
    assert not compiled()
    assert len(files(tmp_path / "elsewhere")) == 1


def test_clearing(folder, capsys):
    assert compiled()
    jsparse.clear_cache()
    assert not compiled()
    (folder / f"{'0' * 64}.kernel").write_bytes(b"jsparse\nof an older version")
    assert command.main(["cache"]) == 0
    shown = capsys.readouterr().out
    assert f"folder   {folder}\nkernels  2, 1 of them" in shown
    assert f"llvmlite {llvmlite.__version__}\n" in shown
    jsparse.clear_cache(disk=True)
    assert list(folder.iterdir()) == []
    assert compiled()
    assert command.main(["cache", "--clear"]) == 0
    assert f"Removed 1 kernels from {folder}." in capsys.readouterr().out
    assert compiled()
    folder.chmod(0o777)
    assert command.main(["cache"]) == 1
    assert "others may write" in capsys.readouterr().err


def test_settings(folder):
    config = jsparse.config
    assert config.cache_dir == str(folder)
    config.cache_dir = "relative"
    assert config.cache_dir == str(Path.cwd() / "relative")
    config.cache_dir = "~/somewhere"
    assert config.cache_dir == str(Path("~/somewhere").expanduser())
    for wrong in (3, b"bytes", "nul\0", True, np.array(["a", "b"])):
        with pytest.raises(jsparse.ConfigError, match="Expected config.cache_dir to be a path"):
            config.cache_dir = wrong
    config.cache_bytes = np.int64(10_000)
    assert config.cache_bytes == 10_000
    for wrong in (0, -1, "x", None, 1.5, True, np.True_, np.ones(2), "²", "9" * 9999):
        with pytest.raises(jsparse.ConfigError, match="Expected config.cache_bytes to be a positive number of bytes"):
            config.cache_bytes = wrong
    with pytest.raises(jsparse.ConfigError, match=r"whole process. Assign it: jsparse.config.cache_dir = 'x'"):
        config(cache_dir="x")


def test_an_entry_that_is_too_large_is_not_kept(folder):
    jsparse.config.cache_bytes = 1000
    assert compiled()
    assert compiled()
    assert Folder(str(folder), 1000).summary()[0] == 0


def test_files_of_others_stay_as_they_are(folder):
    """Neither a sweep nor clearing touches a file that is not ours by its name and by its first bytes."""
    folder.mkdir(mode=0o700, parents=True)
    names = ("written", "notes.kernel", f"{'1' * 64}.kernel", f"{'2' * 64}.kernel.ab.part", f"{'3' * 64}.kernel")
    for name in names[:-1]:
        (folder / name).write_text("my own notes\n")
        os.utime(folder / name, (1, 1))  # older than anything that a sweep would remove
    (folder / names[-1]).symlink_to(folder / "written")

    def found():
        stats = {file.name: file.lstat() for file in folder.iterdir()}
        return {name: (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_mode) for name, stat in stats.items()}

    before = found()
    bounded = Folder(str(folder), 20_000)
    for n in range(60):  # several sweeps
        bounded.write(f"{n:064x}", b"jsparse\n" + bytes(1000))
    assert len(files(folder)) < 30
    assert bounded.clear() > 5
    assert found() == before
    assert bounded.summary() == (0, [])


def test_a_counter_that_is_not_ours(folder):
    folder.mkdir(mode=0o700, parents=True)
    counter = folder / f"{'0' * 64}.written"
    for make in (lambda: counter.write_text("my own notes"), lambda: os.mkfifo(counter)):
        make()
        with pytest.raises(OSError, match="that jsparse did not write"):
            Folder(str(folder), 20_000).write("0" * 64, bytes(9))
        assert Folder(str(folder), 20_000).clear() == 0
        counter.unlink()  # it is there, and nothing else
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_kernel_that_others_may_write_to_is_not_loaded(folder, mode):
    assert compiled()
    (file,) = files(folder)
    file.chmod(mode)
    with pytest.warns(jsparse.CacheWarning, match=f"others may write to .*mode is {mode:o}.*compiled again"):
        assert compiled()
    assert file.stat().st_mode & 0o777 == 0o600  # it was replaced
    assert not compiled()
    file.chmod(mode)
    assert compiled()  # a process warns once
    file.chmod(0o644)  # others may read it
    assert not compiled()
