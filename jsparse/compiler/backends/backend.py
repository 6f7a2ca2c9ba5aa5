"""What a code generator is to the run time: it gives a kernel an address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from jsparse.compiler.kernel.kernel import Kernel
from jsparse.compiler.signature import BufferType

__all__ = ["Backend", "CompiledKernel", "Linker"]


@dataclass(frozen=True, eq=False, slots=True)
class CompiledKernel:
    """A kernel in memory, for as long as this object lives.

    Attributes:
        address: of a function of the ABI of `csrc/kernel/abi.h`.
        alive: what keeps the function there.
        object_code: what the backend's linker makes the kernel of in another process; None where it has no linker.
    """

    address: int
    alive: object
    object_code: bytes | None = None


class Linker(Protocol):
    """How the kernels of a backend get back from disk. Linkers with equal targets are equal."""

    def target(self) -> str:
        """What object code depends on besides the kernel and this package's sources: the compiler, its version, the
        machine."""

    def link(self, object_code: bytes) -> CompiledKernel:
        """The kernel of object code that was made for this target. Raises RuntimeError if it cannot be linked here."""

    def __hash__(self) -> int: ...


class Backend(Protocol):
    """A code generator. `compiler.backends.table` lists them all."""

    @property
    def name(self) -> str:
        """In the table, in `jsparse.config.backend` and in recipes."""

    @property
    def title(self) -> str:
        """For people."""

    @property
    def linker(self) -> Linker | None:
        """None if the kernels of this backend are never stored on disk."""

    def compile(self, kernel: Kernel, buffers: Sequence[BufferType]) -> CompiledKernel:
        """The kernel at an address; `buffers` says what its buffers are given as, in the same order."""

    def listing(self, kernel: Kernel) -> str:
        """What becomes of the kernel, as text to read; empty if there is nothing to see but the kernel itself."""
