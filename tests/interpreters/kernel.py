"""Kernels executed by the interpreter of KernelIR, with which tests compare machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel.interpret import execute
from jsparse.compiler.kernel.jam import with_jams

__all__ = ["interpret_kernel"]

MANY = 1 << 10  # the number of threads that kernels read


def interpret_kernel(kernel: Kernel, buffers: Sequence[NDArray[Any]], reverse: bool = False) -> None:
    """Execute `kernel` on `buffers`, which are in the order of `kernel.buffers`. Written buffers change in place.

    Loops run as many iterations at a time as `For.copies` allows. Every load and store is checked against the array's
    size. With `reverse`, parallel chunks run from the last to the first, and the number of threads that the kernel
    reads is 1 instead of many. A correct kernel has the same result in both cases.
    """
    flat = {b.name: np.ascontiguousarray(a).reshape(-1) for b, a in zip(kernel.buffers, buffers, strict=True)}
    shapes = {b.name: a.shape for b, a in zip(kernel.buffers, buffers, strict=True)}
    for buffer, array in zip(kernel.buffers, buffers, strict=True):
        if buffer.written and not np.shares_memory(flat[buffer.name], array) and array.size:
            raise ValueError(f"Expected the written buffer {buffer.name} to be contiguous.")

    def run_chunks(count: int, body: Callable[[int], None]) -> None:
        for n in reversed(range(count)) if reverse else range(count):
            body(n)

    execute(with_jams(kernel), flat, shapes, 1 if reverse else MANY, run_chunks)
