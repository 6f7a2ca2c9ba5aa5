"""LLVM as a backend: kernel → LLVM module → object code → an address in this process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

import llvmlite
from llvmlite import binding as llvm

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import hold_over_forks
from jsparse.compiler.backends.backend import ENTRY, CompiledKernel
from jsparse.compiler.backends.llvm.cpu import host_cpu
from jsparse.compiler.signature import BufferType

if TYPE_CHECKING:
    from llvmlite import ir

    from jsparse.compiler.kernel import Kernel

OPTIMIZED = 3  # LLVM's highest optimisation level

# llvmlite parses and optimizes modules in one context of LLVM, which only one thread may use at a time. Kernels become
# object code before they are linked, so that the cache on disk holds what `link_object` takes, and a kernel that was
# just compiled and one from disk come to life in the same way. Each is a separate library, with its own name: it is
# unloaded when the last reference to its `CompiledKernel` goes.
_lock = hold_over_forks(threading.RLock())
_names = count()


@cache
def _target_machine(level: int = OPTIMIZED) -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    cpu, features = host_cpu()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=level, reloc="pic")


def llvm_version() -> str:
    """The version of LLVM, as text."""
    return ".".join(map(str, llvm.llvm_version_info))


def describe_target(level: int = OPTIMIZED) -> str:
    """A description of the compiler, its version and the CPU. Machine code depends on these, the kernel and this
    package's sources."""
    with _lock:
        machine = _target_machine(level)
    cpu, features = host_cpu()
    compiler = f"llvmlite {llvmlite.__version__}\nllvm {llvm_version()}\nlevel {level}"
    return f"{compiler}\ntriple {machine.triple}\ncpu {cpu}\nfeatures {features}"


@cache
def _linker() -> llvm.LLJIT:
    return llvm.create_lljit_compiler(_target_machine())


def _optimize(module: ir.Module, level: int = OPTIMIZED) -> llvm.ModuleRef:
    machine = _target_machine(level)
    module.triple = machine.triple
    parsed = llvm.parse_assembly(str(module))
    parsed.data_layout = str(machine.target_data)
    parsed.verify()
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    # Segments of stored entries are short, so a remainder loop costs more than unrolling by four saves.
    tuning.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(parsed, builder)
    return parsed


def _emit_llvm(kernel: Kernel) -> ir.Module:
    """Emit the LLVM module of a kernel. The emitter loads slowly, and is imported only when it is needed."""
    from jsparse.compiler.backends.llvm.emit import emit_module  # noqa: PLC0415

    return emit_module(kernel)


def compile_kernel(kernel: Kernel, level: int = OPTIMIZED) -> CompiledKernel:
    """Compile a kernel for this machine in about 10 to 40 ms. Level 0, for tests, takes a fifth of that time."""
    with _lock:
        return compile_module(_emit_llvm(kernel), level)


def compile_module(module: ir.Module, level: int = OPTIMIZED) -> CompiledKernel:
    """Compile a module whose function `ENTRY` is a kernel."""
    with _lock:
        return link_object(_target_machine(level).emit_object(_optimize(module, level)))


def link_object(object_code: bytes) -> CompiledKernel:
    """Link object code that `compile_kernel` made for the same target. Linking takes less than 1 ms."""
    with _lock:
        builder = llvm.JITLibraryBuilder().add_object_img(object_code).export_symbol(ENTRY).add_current_process()
        library = builder.link(_linker(), f"kernel{next(_names)}")
        return CompiledKernel(library[ENTRY], library, object_code)


def llvm_ir_text(kernel: Kernel) -> str:
    """The LLVM IR of a kernel after all passes."""
    with _lock:
        return str(_optimize(_emit_llvm(kernel)))


def assembly(kernel: Kernel) -> str:
    """The machine code of a kernel as assembly language."""
    with _lock:
        text: str = _target_machine().emit_assembly(_optimize(_emit_llvm(kernel)))
        return text


@dataclass(frozen=True, slots=True)
class Llvm:
    """The backend that compiles kernels to machine code for this CPU, at one of LLVM's optimisation levels."""

    level: int = OPTIMIZED

    name = "llvm"
    title = "LLVM"

    @property
    def linker(self) -> Llvm:
        return self

    def compile(self, kernel: Kernel, buffers: Sequence[BufferType]) -> CompiledKernel:
        return compile_kernel(kernel, self.level)

    def listing(self, kernel: Kernel) -> str:
        return llvm_ir_text(kernel)

    def target(self) -> str:
        return describe_target(self.level)

    def link(self, object_code: bytes) -> CompiledKernel:
        return link_object(object_code)
