"""The interpreter of KernelIR as a backend: Python executes the kernels, which have the same ABI as compiled kernels.
The interpreter is slow and needs no compiler. Its results can be compared with LLVM's wherever kernels run.

A kernel's function takes the GIL. Chunks of parallel loops run one after the other, on the caller's thread. But they
are called through the context that the kernel gets from its caller (`csrc/kernel/abi.h`), because a context may prepare
memory before each chunk (`csrc/routines/ordered_assembly.cc`). If Python raises an exception, the kernel fails with the
text of that exception.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jsparse.base import _native
from jsparse.compiler.backends.backend import CompiledKernel
from jsparse.compiler.signature import BufferType
from jsparse.errors import shorten

if TYPE_CHECKING:
    from jsparse.compiler.kernel import Kernel
    from jsparse.compiler.kernel.nodes import Buffer


class _Context(ctypes.Structure):
    """The context of a kernel's call: the struct `Context` of csrc/kernel/abi.h."""


_Body = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_ParallelFor = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Context), ctypes.c_int64, _Body, ctypes.c_void_p)
_Function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_Addresses = ctypes.POINTER(ctypes.c_void_p)
_Shapes = ctypes.POINTER(ctypes.POINTER(ctypes.c_int64))
_Context._fields_ = [
    ("abi", ctypes.c_int64),
    ("num_threads", ctypes.c_int64),
    ("parallel_for", _ParallelFor),
    ("error", ctypes.c_void_p),
    ("borrow", ctypes.c_void_p),
    ("give_back", ctypes.c_void_p),
    ("spare", ctypes.c_void_p),
]

FAILED = 1
_no_memory = ctypes.create_string_buffer(b"the interpreter has no memory to say why it failed")


class Interpreter:
    """The backend that executes KernelIR in Python, statement by statement."""

    name = "interpret"
    title = "interpreter"
    linker = None

    def compile(self, kernel: Kernel, buffers: Sequence[BufferType]) -> CompiledKernel:
        from jsparse.compiler.kernel.jam import with_jams  # noqa: PLC0415  slow to load, and rarely needed

        function = _Interpreted(with_jams(kernel), [len(buffer.shape) for buffer in buffers])
        thunk = _Function(partial(_native.run_python, function))
        address = ctypes.cast(thunk, ctypes.c_void_p).value
        assert address is not None
        return CompiledKernel(address, thunk)

    def listing(self, kernel: Kernel) -> str:
        return ""


class _Interpreted:
    """A Python function that executes one kernel, with the arguments of a compiled kernel: three addresses.

    Attributes:
        messages: the texts of all errors so far. The caller reads a text after the call has returned.
    """

    def __init__(self, kernel: Kernel, ranks: Sequence[int]) -> None:
        self.kernel, self.ranks = kernel, ranks
        self.messages: dict[bytes, Any] = {}

    def __call__(self, context_at: int, buffers_at: int, dims_at: int) -> int:
        context = _Context.from_address(context_at)
        try:
            buffers, dims = (ctypes.cast(x, type_) for x, type_ in ((buffers_at, _Addresses), (dims_at, _Shapes)))
            shapes = [tuple(dims[n][axis] for axis in range(rank)) for n, rank in enumerate(self.ranks)]
            shaped = list(zip(self.kernel.buffers, shapes, strict=True))
            flat = {buffer.name: _view(buffers[n], buffer, prod(shape)) for n, (buffer, shape) in enumerate(shaped)}
            extents = {buffer.name: shape for buffer, shape in shaped}
            from jsparse.compiler.kernel.interpret import execute  # noqa: PLC0415  slow to load, and rarely needed

            execute(self.kernel, flat, extents, context.num_threads, partial(_run_chunks, context))
        except BaseException as error:  # the caller is C++
            context.error = self.message(error)
            return FAILED
        return 0

    def message(self, error: BaseException) -> int:
        """Return the address of the text that describes an error."""
        try:
            text = shorten(f"{type(error).__name__}: {error}", 300).replace("\0", " ")
            said = f"the interpreter of kernels failed with {text}".encode(errors="replace")
            return ctypes.addressof(self.messages.setdefault(said, ctypes.create_string_buffer(said)))
        except MemoryError:
            return ctypes.addressof(_no_memory)


def _run_chunks(context: _Context, count: int, body: Callable[[int], None]) -> None:
    """Run a parallel loop by the context's `parallel_for`, on one thread. A Python exception cannot pass through C++.
    So after an exception in a chunk, the remaining chunks are skipped, and the exception is raised after the loop."""
    errors: list[BaseException] = []
    done: list[int] = []

    def run(_: Any, chunk: int) -> None:
        try:
            if not errors:
                body(chunk)
                done.append(chunk)
        except BaseException as error:
            errors.append(error)

    before = context.num_threads
    context.num_threads = 1
    try:
        context.parallel_for(ctypes.byref(context), count, _Body(run), None)
    finally:
        context.num_threads = before
    if errors:
        raise errors[0]
    if len(done) < count:  # an interrupt arrived before the first instruction of `run`
        raise KeyboardInterrupt


class _Memory:
    """Bytes at an address, with numpy's array interface."""

    def __init__(self, address: int, size: int, written: bool) -> None:
        self.__array_interface__ = {"data": (address, not written), "shape": (size,), "typestr": "|u1", "version": 3}


def _view(address: int | None, buffer: Buffer, length: int) -> NDArray[Any]:
    """Return a buffer's memory as an array. XLA may give an empty buffer a null address."""
    dtype = np.dtype(buffer.type.dtype)
    if not length:
        return np.empty(0, dtype)
    assert address is not None
    return np.asarray(_Memory(address, length * dtype.itemsize, buffer.written)).view(dtype)
