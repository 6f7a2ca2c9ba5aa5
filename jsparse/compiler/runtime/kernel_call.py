"""Calls that XLA can make, from recipes: the compiled kernels of this process, the function `resolve` that rebuilds the
calls of a loaded program, and names for profiles.

The stages of the compiler report their times to the active collector.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

import numpy as np

from jsparse.base import _native
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import hold_over_forks, memoize
from jsparse.base.progress import working
from jsparse.compiler import cache
from jsparse.compiler.backends import BACKENDS
from jsparse.compiler.backends.backend import Backend, CompiledKernel
from jsparse.compiler.cache.entry import StoredKernel
from jsparse.compiler.loops.nest import MAX_CHUNKS
from jsparse.compiler.lower.storage import buffer_types
from jsparse.compiler.output_kind import Compute, Coordinates, Write
from jsparse.compiler.problem import Problem
from jsparse.compiler.runtime.assembly_call import counting_problem, read_assembly
from jsparse.compiler.runtime.bound_arrays import OPERAND, arrays_of_patterns, find_array, read_carried
from jsparse.compiler.runtime.recipe import backend_of, digest, is_assembly, is_routine, read_recipe, write_recipe
from jsparse.compiler.runtime.routine import read_routine
from jsparse.compiler.schedule import build_loops
from jsparse.compiler.schedule.schedule import Schedule
from jsparse.compiler.signature import encode_buffers, static_buffer_type
from jsparse.errors import JsparseError
from jsparse.formats import Pattern

_collecting: ContextVar[dict[str, float] | None] = ContextVar("collecting", default=None)


@contextmanager
def collect() -> Iterator[dict[str, float]]:
    """Yield a dict that collects the seconds of each compiler stage that this thread runs inside the block."""
    seconds: dict[str, float] = {}
    token = _collecting.set(seconds)
    try:
        yield seconds
    finally:
        _collecting.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Measure the time of the block, and report it to the active collector under the name of the stage."""
    seconds = _collecting.get()
    start = time.perf_counter()
    try:
        yield
    finally:
        if seconds is not None:
            seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - start


@memoize(maxsize=1024)
def title_of(recipe: str) -> str:
    """The title of a recipe: the kernel's statements, or a description of the routine.

    For example: `C[i, k] = A[i, j] * B[j, k]`. If a kernel finds a pattern, the title also states what it finds.

    Raises JsparseError for text that is not a recipe.
    """
    if is_routine(recipe):
        return read_routine(recipe).title
    if is_assembly(recipe):
        return "; ".join(dict.fromkeys(_title(term.problem) for term in read_assembly(recipe).terms))
    return _title(read_recipe(recipe)[0])


def _title(problem: Problem) -> str:
    if problem.wants_values:
        values = "; ".join(str(statement) for statement in problem.statements)
        return f"{values}, with its pattern" if problem.is_assembly else values
    walks = [f"P{n}[{', '.join(problem.level_variables[n])}]" for n in range(len(problem.patterns))]
    terms = (" * ".join(walks[n] for n in statement.patterns) or "1" for statement in problem.statements)
    return f"the {problem.output} of {problem.target} = {' + '.join(terms)}"


STARTS = "starts"  # stands for the array of the offsets at which chunks write values, which is made here
INVALID = "!"  # stands at the end of `KernelCall.bound` for one more operand, the validity flag
LARGE_RECIPE = 10_000  # characters; the kernels of most recipes are compiled in a tenth of a second
KEPT_KERNELS = 1024  # the maximum number of compiled kernels that are kept without a program that uses them

_kernels: OrderedDict[str, RunnableKernel] = OrderedDict()
_lock = hold_over_forks(threading.RLock())


@dataclass(frozen=True, slots=True, eq=False)
class RunnableKernel:
    """A compiled kernel with the signature of its buffers (see `compiler.signature`)."""

    code: CompiledKernel
    signature: list[int]

    @property
    def buffer_count(self) -> int:
        return self.signature[0]


@dataclass(frozen=True, slots=True)
class KernelCall:
    """A kernel with its bound index arrays: the attributes of the custom call.

    Attributes:
        recipe: the kernel's recipe.
        bound: the names of the kernel's last arrays (see `compiler.runtime.bound_arrays`), separated by spaces.
            `OPERAND` stands for an array that is an operand. `INVALID` at the end stands for one more operand, a bool:
            if it is true, all results of floating dtypes are NaN.
    """

    recipe: str
    bound: str

    @property
    def key(self) -> str:
        """The digest by which the run time finds the call."""
        return digest(self.recipe, self.bound)

    @property
    def with_validity(self) -> KernelCall:
        """Return this call with an additional operand, a bool: if it is true, the results are NaN."""
        return replace(self, bound=f"{self.bound} {INVALID}")

    @property
    def names(self) -> list[str]:
        """The names of the index arrays, with `OPERAND` for operands."""
        return [name for name in self.bound.split() if name != INVALID]


def call_of(problem: Problem, schedules: tuple[Schedule, ...], bound: tuple[str, ...], backend: str) -> KernelCall:
    """Make the call of a backend's kernel that runs `problem` with these schedules on the named index arrays."""
    return KernelCall(write_recipe(problem, schedules, backend), " ".join(bound))


def kernel_of(recipe: str) -> RunnableKernel:
    """The compiled kernel of a recipe: from memory, from disk, or compiled now."""
    # One thread compiles at a time, so a kernel that two threads ask for is compiled once.
    name = digest(recipe)
    with _lock:
        kernel = _kernels.pop(name, None)
        if kernel is None:
            backend = BACKENDS[backend_of(recipe)]
            kernel = _load(recipe, backend) or _compile(recipe, backend)
        _kernels[name] = kernel  # the last one in order is the most recently used
        while len(_kernels) > KEPT_KERNELS:
            _kernels.popitem(last=False)
        return kernel


def _load(recipe: str, backend: Backend) -> RunnableKernel | None:
    """Load a kernel from disk, where each process looks before it compiles: linking takes less than 1 ms."""
    linker = backend.linker
    if linker is None:
        return None
    with stage("disk cache"):
        stored = cache.load(recipe, linker)
        try:
            return None if stored is None else RunnableKernel(linker.link(stored.object_code), stored.signature)
        except RuntimeError:  # for example, the code calls a function that this machine's C library lacks
            return None


def _compile(recipe: str, backend: Backend) -> RunnableKernel:
    from jsparse.compiler.lower.lower import lower  # noqa: PLC0415  kernels from disk do not need it

    with working(f"compiling {title_of(recipe)}", is_long=len(recipe) > LARGE_RECIPE):
        with stage("code generation"):
            problem, schedules = read_recipe(recipe)
            kernel = lower(build_loops(problem, *schedules))
        buffers = buffer_types(problem)
        signature = encode_buffers(buffers)
        with stage(backend.title):
            code = backend.compile(kernel, buffers)
    if backend.linker is not None and code.object_code is not None:
        with stage("disk cache"):
            cache.save(recipe, StoredKernel(code.object_code, signature), backend.linker)
    return RunnableKernel(code, signature)


def bind(call: KernelCall, patterns: tuple[Pattern, ...] = ()) -> _native.Call:
    """Bind a call in the run time, and return a handle on it. An executable with the call holds a handle, too. The call
    stays bound as long as any handle on it exists.

    The index arrays and `patterns` live as long as the call.

    Raises JsparseError if something that the call states is wrong: see `recipe.check_problem` and `bound_arrays`.
    """
    bound = _native.find_call(call.key)
    if bound is not None:
        return bound
    owner: object = None
    if is_routine(call.recipe):
        routine = read_routine(call.recipe)
        address, slots, arrays, results = routine.address, routine.slots, [routine.table()], routine.results
        signature = encode_buffers(routine.buffer_types)
    elif is_assembly(call.recipe):
        assembly = replace(read_assembly(call.recipe), bound=call.bound)
        arrays, signature = assembly.find_bound_arrays(), encode_buffers(assembly.buffer_types)
        tables, alive = assembly.tables(lambda recipe: kernel_of(recipe).code)
        address, slots, arrays, results = assembly.address, assembly.slots, [*tables, *arrays], assembly.results
        owner = (alive, patterns)
    else:
        kernel, slots, arrays, signature = _bind_kernel(call)
        results = len(read_recipe(call.recipe)[0].results)
        address, owner = kernel.code.address, (kernel, patterns)
    texts = call.recipe, call.bound
    return _native.bind_call(call.key, address, slots, arrays, owner, False, signature, results, *texts)


def _bind_kernel(call: KernelCall) -> tuple[RunnableKernel, list[int], list[np.ndarray], list[int]]:
    """The kernel of a call, the slots of its buffers, the arrays that are bound, and the signature of the buffers."""
    problem, schedules = read_recipe(call.recipe)
    names, results = call.names, len(problem.results)
    count = sum(len(level.kind.arrays) for type_ in problem.patterns for level in type_.levels)
    others = names[count:]
    if not problem.patterns:
        arrays = [find_array(name) for name in names if name != OPERAND]
    else:
        arrays = [array for of_pattern in arrays_of_patterns(problem, names[:count]) for array in of_pattern]
    kernel = kernel_of(call.recipe)
    signature = kernel.signature
    match problem.output:
        case Write(coordinates=Coordinates.NONE) if others in ([], [OPERAND]) and OPERAND not in names[:count]:
            counts = chunk_counts(problem, schedules, arrays, backend_of(call.recipe))
            arrays.append((np.cumsum(counts) - counts).astype(np.int32))
            *before, values = buffer_types(problem)
            signature = encode_buffers([*before, static_buffer_type(values.dtype, int(counts.sum()))])
            slots = _slots(call, [*names[:count], STARTS], kernel.buffer_count, results, unused=len(others))
        case Compute() if not others or not problem.patterns:
            slots = _slots(call, names, kernel.buffer_count, results)
        case _:
            raise JsparseError(
                f"Expected a kernel that computes values from {count} index arrays, but the recipe states "
                f"{problem.output} from {len(names)}. Export the program again."
            )
    return kernel, slots, arrays, signature


def chunk_counts(
    problem: Problem, schedules: tuple[Schedule, ...], index: Sequence[np.ndarray], backend: str
) -> np.ndarray:
    """Count the columns that each chunk of the outermost loop reaches. Returns an int64 array of shape (MAX_CHUNKS,).

    All patterns are static; `index` are their index arrays.
    """
    return run_counting(write_recipe(counting_problem(problem), schedules, backend), index)


def run_counting(recipe: str, index: Sequence[np.ndarray]) -> np.ndarray:
    """Run the kernel of a counting problem, as `chunk_counts` does."""
    counts = np.zeros(MAX_CHUNKS, np.int64)
    run_recipe(recipe, [*index, counts])
    return counts


def _slots(call: KernelCall, names: Sequence[str], count: int, results: int, unused: int = 0) -> list[int]:
    """Return the slots of a kernel's buffers. The buffers are operands, index arrays and results (see `lower.storage`).

    The call also has operands that are not buffers of the kernel: `unused` operands, then the validity flag, if any.
    """
    others = count - results - len(names)
    if others < 0:
        raise JsparseError(f"Expected at most {count - results} names of index arrays, but got {len(names)}.")
    operands = itertools.count()
    bound = itertools.count(-1, -1)
    slots = list(itertools.islice(operands, others))
    slots += [next(operands) if name == OPERAND else next(bound) for name in names]
    first = next(operands) + unused + (INVALID in call.bound.split())
    return [*slots, *range(first, first + results)]


def resolve(
    key: str, recipe: str, bound: str, carried: str = "", arrays: Sequence[np.ndarray] | None = None
) -> _native.Call | None:
    """Rebuild a call for a loaded program, and return a handle on it. The handle keeps the call bound until the
    executable holds its own handle.

    Args:
        carried: the patterns that the program carries (see `compiler.runtime.bound_arrays`), if it was exported.
        arrays: the index arrays of these patterns, which are valid only until this function returns. They are None
            before the program runs. Then the result is None if this process lacks one of the patterns.

    Raises JsparseError if the call that the recipe states cannot be bound.
    """
    call = KernelCall(recipe, bound)
    try:
        if call.key != key:
            raise JsparseError(f"Expected a recipe with the digest {key}, but it has {call.key}.")
        patterns = read_carried(carried, arrays)
        return None if patterns is None else bind(call, patterns)
    except JsparseError:
        raise
    except Exception as error:  # the recipe may state anything
        raise JsparseError(
            f"Expected the recipe of a call that was compiled, but part of it was changed: {type(error).__name__}: "
            f"{error}. Export the program again."
        ) from error


def run_recipe(recipe: str, buffers: Sequence[np.ndarray], threads: int = 0) -> None:
    """Run the kernel of a recipe on all of its buffers, without XLA.

    Raises RuntimeError if the kernel fails, ValueError if the buffers do not fit its signature.
    """
    kernel = kernel_of(recipe)  # this reference keeps the code alive while it runs, even if the cache drops it
    code = _native.run(kernel.code.address, list(buffers), threads, kernel.signature, recipe)
    if code:
        raise RuntimeError(f"kernel failed with code {code}: {_native.last_error()}")


def clear_cache() -> None:
    """Drop every compiled kernel that no live program uses."""
    with _lock:
        _kernels.clear()
