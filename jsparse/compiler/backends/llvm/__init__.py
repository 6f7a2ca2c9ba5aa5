"""KernelIR → LLVM → machine code, in process."""

from jsparse.compiler.backends.llvm.jit import compile_kernel

__all__ = ["compile_kernel"]
