"""`python -m jsparse info`."""

import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys

import jax
import llvmlite.binding as llvm
import numpy as np
import pytest

import jsparse
from jsparse import __main__ as command
from jsparse.base import _native
from jsparse.compiler.cache import location
from jsparse.ops import installation


def printed(capsys, *arguments):
    assert command.main(["info", *arguments]) == 0
    return capsys.readouterr().out


def test_json(capsys):
    facts = json.loads(printed(capsys, "--json"))
    versions = facts["versions"]
    assert versions["jsparse"] == jsparse.__version__
    assert versions["jax"] == jax.__version__
    assert versions["numpy"] == np.__version__
    assert versions["python"] == platform.python_version()
    assert versions["llvm"] == ".".join(map(str, llvm.llvm_version_info))
    assert set(versions) >= {"jaxlib", "scipy", "llvmlite"}
    machine = facts["machine"]
    assert machine["llvm_cpu"] == llvm.get_host_cpu_name()
    assert machine["features"] == sorted(name for name, has in llvm.get_host_cpu_features().items() if has)
    assert machine["threads"] == len(os.sched_getaffinity(0))
    assert machine["cores"] == os.cpu_count()
    assert facts["settings"] == {
        "bounds": jsparse.config.bounds,
        "backend": jsparse.config.backend,
        "overflow": "raise",
        "autotune": "off",
        "blocks": "xla",
        "tiles": "auto",
        "cache_dir": None,
        "cache_bytes": jsparse.config.cache_bytes,
        "log_compiles": False,
        "progress": True,
    }
    assert facts["extension"] == {
        "loads": True, "ffi": "0.1", "jaxlib_ffi": facts["extension"]["jaxlib_ffi"], "kernel_abi": _native.ABI
    }  # fmt: skip
    assert re.fullmatch(r"\d+\.\d+", facts["extension"]["jaxlib_ffi"])


def test_text_has_everything_that_json_has(capsys):
    facts, shown = json.loads(printed(capsys, "--json")), printed(capsys)
    assert max(map(len, shown.splitlines())) <= 130
    words = shown.split()
    for title, section in facts.items():
        assert title in words
        for name, value in section.items():
            assert name in words
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, str):
                    assert all(word in words for word in part.split())


def test_settings_are_those_of_the_moment(capsys):
    with jsparse.config(bounds="check"):
        assert json.loads(printed(capsys, "--json"))["settings"]["bounds"] == "check"


def test_an_absent_package_is_left_out(monkeypatch):
    usual = importlib.metadata.version

    def version(name):
        if name == "flax":
            raise importlib.metadata.PackageNotFoundError(name)
        return usual(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert "flax" not in installation.installation()["versions"]
    assert "jax" in installation.installation()["versions"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(location, "is_users", False)
    monkeypatch.setattr(location, "chosen", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_state_of_the_folder(folder):
    assert installation.cache_state().startswith("0 kernels, 0 of them")
    jsparse.clear_cache()
    jax.block_until_ready(jsparse.einsum("ij,j->i", jsparse.asarray(np.eye(53, dtype=np.int16)), np.ones(53, np.int16)))
    count = len([file for file in folder.rglob("*") if file.is_file() and file.suffix != ".written"])
    assert count > 0
    assert installation.cache_state().startswith(f"{count} kernels, {count} of them")


def test_a_folder_that_cannot_be_read(folder):
    folder.write_text("no folder")
    assert "Expected to look at compiled kernels in" in installation.cache_state()


def test_without_a_folder(monkeypatch):
    monkeypatch.setattr(location, "is_users", False)
    monkeypatch.setattr(location, "chosen", None)
    assert "memory only" in installation.cache_state()


def test_as_a_program():
    done = subprocess.run([sys.executable, "-m", "jsparse", "info"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("versions\n  jsparse")


def test_help_without_a_command(capsys):
    assert command.main([]) == 0
    assert "info" in capsys.readouterr().out


def test_kernels_are_shown_as_a_table():
    A = jsparse.eye(3)
    kernels = jsparse.explain("ij,j->i", A, np.ones(3, np.float32)).kernels
    assert repr(kernels) == "0. C[i] = A[i, j] * B[j], a dense result  64 bytes"
