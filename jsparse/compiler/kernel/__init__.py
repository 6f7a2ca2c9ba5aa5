"""KernelIR: imperative code over flat buffers. Code generators take it in the form of kernels."""

from __future__ import annotations

from jsparse.base.dataclass import dataclass
from jsparse.compiler.kernel.nodes import Buffer, Stmt
from jsparse.compiler.kernel.printer import kernel_text

__all__ = ["Kernel"]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function of flat buffers, which are listed in the order of their numbers (`Buffer.slot`)."""

    buffers: tuple[Buffer, ...]
    body: Stmt

    def __str__(self) -> str:
        return kernel_text(self.buffers, self.body)
