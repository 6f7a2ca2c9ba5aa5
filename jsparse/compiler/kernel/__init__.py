"""KernelIR: imperative code over flat buffers, the input of code generators."""

from jsparse.compiler.kernel.kernel import Kernel

__all__ = ["Kernel"]
