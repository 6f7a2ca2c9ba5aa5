"""Loop nest → KernelIR."""

from jsparse.compiler.lower.lower import kernel_buffers, lower

__all__ = ["kernel_buffers", "lower"]
