"""KernelIR: imperative code over flat buffers, the last form before LLVM."""

from jsparse.compiler.kernel.kernel import Kernel

__all__ = ["Kernel"]
