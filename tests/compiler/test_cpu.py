"""What LLVM and the system say of the CPU, and systems on which they say less."""

import os
import platform
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from functions.exhaustive import EXACT, UNARY
from functions.measure import BOUNDS, function_kernel

from jsparse.base import _native
from jsparse.compiler.backends.llvm import cpu, emit, jit, types
from jsparse.compiler.operations import OPERATIONS
from jsparse.ops.installation import _cpu_name, _usable_threads


@pytest.fixture
def fresh(monkeypatch):
    """Replaces the memos of this process by functions that ask again."""
    for name in ("features", "host_cpu", "has_rounding", "has_fused_multiply_add", "has_half_instructions"):
        monkeypatch.setattr(cpu, name, getattr(cpu, name).__wrapped__)
    monkeypatch.setattr(cpu, "has_fast_gathers", cpu.has_fast_gathers.__wrapped__)
    monkeypatch.setattr(cpu, "has_many_registers", cpu.has_many_registers.__wrapped__)


def test_features_are_those_of_llvm():
    assert cpu.host_cpu() == (jit.llvm.get_host_cpu_name(), jit.llvm.get_host_cpu_features().flatten())


def test_a_system_on_which_llvm_lists_no_features(monkeypatch, fresh):
    def get_host_cpu_features():
        raise RuntimeError("failed to get host cpu features.")

    monkeypatch.setattr(cpu.llvm, "get_host_cpu_features", get_host_cpu_features)
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(cpu.llvm, "get_host_cpu_name", lambda: "apple-m1")
    assert cpu.host_cpu() == ("apple-m1", "")
    assert cpu.has_rounding()
    assert cpu.has_fused_multiply_add()
    assert cpu.has_half_instructions()
    assert not cpu.has_fast_gathers()
    assert not cpu.has_many_registers()


def test_an_x86_without_features(monkeypatch, fresh):
    monkeypatch.setattr(cpu, "features", dict)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert not cpu.has_rounding()
    assert not cpu.has_half_instructions()


def test_the_name_of_a_cpu_on_macos(monkeypatch):
    def run(command, **options):
        assert command[1:] == ["-n", "machdep.cpu.brand_string"]
        return SimpleNamespace(stdout="Apple M2\n")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", run)
    assert _cpu_name() == "Apple M2"
    assert _usable_threads() >= 1


def test_a_system_without_the_name_of_its_cpu(monkeypatch):
    def run(command, **options):
        raise FileNotFoundError(command[0])

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(subprocess, "run", run)
    assert _cpu_name() == (platform.processor() or platform.machine())


def test_memory_is_what_the_system_says():
    assert _native.memory_bytes() == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(params=["arm64-apple-macosx11.0", "aarch64-unknown-linux-gnu"])
def arm(request, monkeypatch, fresh):
    """Generates code for a 64-bit ARM CPU, which this machine may be unable to run."""
    llvm = jit.llvm
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(request.param)
    name = "apple-m1" if "apple" in request.param else "generic"
    monkeypatch.setattr(jit, "_target_machine", lambda level=3: target.create_target_machine(name, "", level, "pic"))
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(cpu, "features", dict)
    monkeypatch.setattr(emit, "has_fast_gathers", cpu.has_fast_gathers)
    monkeypatch.setattr(emit, "has_many_registers", cpu.has_many_registers)
    monkeypatch.setattr(types, "has_half_instructions", cpu.has_half_instructions)


def test_functions_call_nothing_on_arm(arm):
    for name in (*UNARY, *EXACT, "pow"):
        for dtype in ("float32", "float64")[: len(BOUNDS.get(name, (0, 0)))]:
            text = jit.assembly(function_kernel(name, dtype, OPERATIONS[name].arity, lanes=8))
            assert re.search(r"^_?kernel:$", text, re.MULTILINE)
            assert not re.search(r"^\s+(bl|blr|b\s+_?[a-z])\b", text, re.MULTILINE), name
