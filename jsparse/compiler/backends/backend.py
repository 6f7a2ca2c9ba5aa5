"""The interface of code generators: a backend compiles a kernel, and gives it an address."""

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
    """Loads a backend's kernels from disk. Linkers with equal targets are equal."""

    def target(self) -> str:
        """A description of all that object code depends on besides the kernel and this package's sources: the compiler,
        its version, the machine."""

    def link(self, object_code: bytes) -> CompiledKernel:
        """Link object code that was made for this target. Raises RuntimeError if it cannot be linked here."""

    def __hash__(self) -> int: ...


class Backend(Protocol):
    """A code generator. `compiler.backends.table` lists them all."""

    @property
    def name(self) -> str:
        """The name in the table, in `jsparse.config.backend` and in recipes."""

    @property
    def title(self) -> str:
        """The name in messages and explanations."""

    @property
    def linker(self) -> Linker | None:
        """The linker of kernels from disk; None if this backend's kernels are never stored there."""

    def compile(self, kernel: Kernel, buffers: Sequence[BufferType]) -> CompiledKernel:
        """Compile a kernel; `buffers` are the types of its buffers, in the same order."""

    def listing(self, kernel: Kernel) -> str:
        """The code that a kernel becomes, as text; empty if the backend executes the kernel itself."""
