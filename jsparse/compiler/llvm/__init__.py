"""KernelIR → LLVM → machine code, in process."""

from jsparse.compiler.llvm.emit import emit_module
from jsparse.compiler.llvm.jit import CompiledKernel, compile_kernel

__all__ = ["CompiledKernel", "compile_kernel", "emit_module"]
