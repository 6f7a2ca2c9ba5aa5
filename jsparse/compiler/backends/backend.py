"""The interface of code generators: a backend compiles a kernel to a function and returns the function's address."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from jsparse.base.dataclass import dataclass
from jsparse.compiler.signature import BufferType

if TYPE_CHECKING:
    from jsparse.compiler.kernel import Kernel

ENTRY = "kernel"
"""The name of a kernel's function in object code."""


@dataclass(frozen=True, eq=False, slots=True)
class CompiledKernel:
    """A compiled kernel, which stays in memory as long as this object lives.

    Attributes:
        address: the address of a function with the ABI of `csrc/kernel/abi.h`.
        alive: an object that keeps the function in memory.
        object_code: the bytes from which the backend's linker rebuilds the kernel in another process; None if the
            backend has no linker.
    """

    address: int
    alive: object
    object_code: bytes | None = None


class Linker(Protocol):
    """Loads a backend's kernels from disk. Linkers with equal targets are equal."""

    def target(self) -> str:
        """A description of everything that object code depends on, except the kernel and this package's sources: the
        compiler, its version and the machine."""

    def link(self, object_code: bytes) -> CompiledKernel:
        """Link object code that was made for this target. Raises RuntimeError if it cannot be linked here."""

    def __hash__(self) -> int: ...


class Backend(Protocol):
    """A code generator. `compiler.backends.BACKENDS` lists all code generators."""

    @property
    def name(self) -> str:
        """The name of the backend in `BACKENDS`, in `jsparse.config.backend` and in recipes."""

    @property
    def title(self) -> str:
        """The name of the backend in messages and explanations."""

    @property
    def linker(self) -> Linker | None:
        """The linker that loads this backend's kernels from disk; None if such kernels are never stored."""

    def compile(self, kernel: Kernel, buffers: Sequence[BufferType]) -> CompiledKernel:
        """Compile a kernel; `buffers` are the types of the kernel's buffers, in the kernel's order."""

    def listing(self, kernel: Kernel) -> str:
        """The code generated for a kernel, as text; empty if the backend executes KernelIR directly."""
