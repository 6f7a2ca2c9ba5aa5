"""LLVM as a backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jsparse.compiler.backends.backend import CompiledKernel
from jsparse.compiler.backends.llvm.jit import OPTIMIZED, compile_kernel, describe_target, link_object, optimized_ir
from jsparse.compiler.kernel.kernel import Kernel
from jsparse.compiler.signature import BufferType

__all__ = ["Llvm"]


@dataclass(frozen=True, slots=True)
class Llvm:
    """Machine code for this CPU, at one of LLVM's optimisation levels."""

    level: int = OPTIMIZED

    @property
    def name(self) -> str:
        return "llvm"

    @property
    def title(self) -> str:
        return "LLVM"

    @property
    def linker(self) -> Llvm:
        return self

    def compile(self, kernel: Kernel, buffers: Sequence[BufferType]) -> CompiledKernel:
        return compile_kernel(kernel, self.level)

    def listing(self, kernel: Kernel) -> str:
        return optimized_ir(kernel)

    def target(self) -> str:
        return describe_target(self.level)

    def link(self, object_code: bytes) -> CompiledKernel:
        return link_object(object_code)
