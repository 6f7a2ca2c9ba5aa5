"""The run time of generated kernels: an XLA FFI target, runs of kernels on host arrays, and functions of index arrays.

This module does not know what a kernel computes. A kernel is the address of a function

    int kernel(Context* ctx, void* const* buffers, const int64_t* const* dims);

(see `csrc/kernel/abi.h`). A *call* is a kernel with the arrays that are bound to it. Its `key` identifies it.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import DTypeLike, NDArray

_Resolver: TypeAlias = Callable[..., Call | None]

ABI: int
"""The version of what a kernel sees, `csrc/kernel/abi.h`."""

FFI_VERSION: tuple[int, int]
"""The version of XLA's FFI that the extension uses: major, minor."""

@final
class Call:
    """A handle on a call that `bind_call` made. When the last handle of a call is freed, the call is retired.

    A retired call cannot be found by its key. Its owner and bound arrays are freed at once if no program runs a kernel.
    Otherwise they are freed soon after all running kernels have finished. A pinned call is never retired.
    """

    @property
    def key(self) -> str: ...
    def check_operands(self, operands: Sequence[tuple[int, Sequence[int]]]) -> None:
        """Raises ValueError unless the call takes arguments and results of these element types and shapes.

        An element type is the code of the kind letter of its NumPy dtype, times 256, plus its size in bytes.
        """

    def run(self, arguments: Sequence[NDArray[np.generic]]) -> int:
        """Runs the call on host arrays as the function `run` does. The arguments come first, then the results."""

def handlers() -> dict[str, Any]:
    """The handler of each stage of a custom call, in the form that `jax.ffi.register_ffi_target` takes.

    Register them as target `jsparse_kernel` of platform `cpu`. The custom call has the string attributes `key`,
    `recipe` and `bound`. Only the resolver uses the last two.
    """

def bind_call(
    key: str,
    address: int,
    slots: Sequence[int],
    bound: Sequence[NDArray[np.generic]],
    owner: object,
    pin: bool = False,
    signature: Sequence[int] | None = None,
    results: int = -1,
    recipe: str = "",
    bound_names: str = "",
) -> Call:
    """Makes a call from the kernel at `address` and bound arrays, and enters it as `key`. Returns a handle on it.

    The operands of the custom call are its arguments, then its results. The kernel's buffer `b` is operand `slots[b]`.
    Where `slots[b] < 0`, it is the array `bound[-1 - slots[b]]`, which must be contiguous and aligned. `signature` says
    which types and shapes buffers must have (`csrc/kernel/signature.h`). Bound arrays are compared with it now.
    Operands are compared at each run, which fails with the XLA error INVALID_ARGUMENT if they do not fit. Without a
    signature, nothing is compared. With `results` a custom call has to have exactly that many results after its
    arguments. `owner` keeps the machine code mapped. It lives as long as the call, and so do the bound arrays. With
    `pin` the call is never retired. `counted` reports `recipe` and `bound_names`.

    If `key` is bound already, this function returns another handle on that call. It ignores all other arguments except
    `pin`, since a key is a digest of everything that defines its call.
    """

def check_buffers(signature: Sequence[int], buffers: Sequence[tuple[int, Sequence[int]] | None]) -> None:
    """Raises ValueError unless buffers of these element types and shapes fit the signature. None is any buffer."""

def find_call(key: str) -> Call | None:
    """Returns another handle on the bound call of that key, or None if there is no such call."""

def live_calls() -> int:
    """Returns the number of calls that are bound and not retired."""

def set_resolver(f: _Resolver | None) -> _Resolver | None:
    """Sets the function `f`, which binds a call that XLA needs but nobody has bound. Returns the previous function.

    XLA needs such a call when it loads an executable from a cache, a file or another process. It calls
    `f(key, recipe, bound)`, or `f(key, recipe, bound, carried, arrays)` for a program that carries index arrays. `f`
    must call `bind_call(key, ...)` and return the handle. The executable then takes a handle of its own. `arrays` are
    known when the call first runs, and XLA owns them. Before that run, `arrays` is None, and `f` may return without
    binding. `f` may run on any thread. An exception that it raises becomes the XLA error NOT_FOUND.
    """

def run(
    address: int,
    buffers: Sequence[NDArray[np.generic]],
    threads: int = 0,
    signature: Sequence[int] | None = None,
    recipe: str = "",
) -> int:
    """Runs a kernel on host arrays, without XLA and without the GIL, and returns its return code.

    Each array must be contiguous, aligned for its dtype, and fit the `signature`, if there is one (as in `bind_call`).
    Unlike XLA's buffers, it need not be aligned to 64 bytes. Results are written in place, even to arrays that are
    read-only. `threads = 0` uses all threads that the process may use. Threads are made only when the kernel opens a
    parallel loop of more than one chunk. Without a `recipe`, `counted` does not report the run.
    """

def run_python(function: Callable[[int, int, int], int], context: int, buffers: int, dims: int) -> int:
    """Calls a kernel that is a Python function with these addresses, and returns its return code.

    If it raises an exception, even before its first instruction, the context gets an error, and the return code is 1.
    """

def open_profile() -> None:
    """Count calls of kernels from now on, on all threads. Profiles nest."""

def close_profile() -> None:
    """Close a profile. When the last one is closed, calls are no longer counted, and all counts are forgotten."""

def counted() -> list[tuple[str, str, tuple[int, ...], int, int]]:
    """Returns the kernels that ran since the first of the open profiles was opened.

    For each, a tuple has the recipe, the names of bound index arrays, the buffers, the number of runs, and the total
    nanoseconds of these runs. Runs with buffers of other types or shapes are separate. The buffers are one tuple of
    integers: for each buffer its element type (as in `Call.check_operands`), its rank and its sizes.
    """

def set_guard(on: bool) -> None:
    """Set whether all kernels run on copies of their buffers from now on, for tests (`csrc/kernel/guard.h`).

    A protected page follows each copy and each workspace, so a kernel that accesses memory past the end crashes.
    """

def last_error() -> str:
    """Returns the error message of the kernel that `run` ran last on this thread; empty if it did not fail."""

def memory_bytes() -> int:
    """Returns the bytes of the machine's memory, or 2**63 - 1 if the system does not state them."""

def lexsort(keys: Sequence[NDArray[np.integer]], sizes: Sequence[int]) -> NDArray[np.int64]:
    """The stable permutation that sorts by `keys[0]`, then `keys[1]`, and so on (the reverse of `numpy.lexsort`).

    The elements of `keys[k]` must lie in `[0, sizes[k])`; otherwise it raises ValueError. Sizes may be up to 2**62. The
    time is linear in the number of elements.
    """

def compress(sorted_parents: NDArray[np.integer], parents: int, dtype: DTypeLike) -> NDArray[np.integer]:
    """The pointers of entries with sorted parents: parent p has the entries from pointers[p] to pointers[p + 1] - 1.

    `dtype` is int32 or int64. Raises ValueError if the parents are not sorted or lie outside `[0, parents)`, or if
    there are more entries than `dtype` can count.
    """

def out_of_range(keys: NDArray[np.integer], size: int) -> int:
    """The index of the first element of `keys` outside `[0, size)`, or -1 if there is none."""

def assemble(
    rows: Sequence[NDArray[np.integer]], levels: Sequence[tuple[int, int, int, int]], sorted_suffix: int = 0
) -> (
    tuple[
        tuple[NDArray[np.integer], ...],
        int,
        NDArray[np.integer] | None,
        NDArray[np.integer] | None,
        NDArray[np.integer] | None,
        NDArray[np.integer] | None,
    ]
    | None
):
    """The index arrays of the entries at the coordinates `rows`, in any order.

    `rows` has one contiguous int32 or int64 vector (n,) for each dimension. A level is (kind, dimension, unique, size),
    with a kind of `LEVEL_KINDS`. The last `sorted_suffix` levels need no sorting: inputs that are equal in all levels
    before them are in the order of these last levels already.

    Returns the arrays and the number of slots. For each distinct entry, the result then has the number of its first
    input (None if the inputs are sorted and distinct) and its slot (None if the slots are 0, 1, 2, …). Next come the
    inputs that repeat an entry, and the numbers of the entries that they repeat (None if no input does). The result is
    None if a coordinate is outside of its dimension. Raises OverflowError if 64 bits do not count the slots.
    """

def accumulate(
    rows: Sequence[NDArray[np.integer]], levels: Sequence[tuple[int, int, int, int]], values: NDArray[np.generic]
) -> tuple[tuple[NDArray[np.integer], ...], int, NDArray[Any]] | None:
    """The index arrays of entries with values, as for `assemble`, the number of slots, and the values of the slots.

    The values of inputs that share a slot are added in the order of the inputs. The result is None if the caller has to
    use `assemble`: for rare formats and dtypes, range levels, few or sorted entries, and coordinates out of range.
    """

def expand(
    arrays: Sequence[NDArray[np.integer]],
    levels: Sequence[tuple[int, int, int, int]],
    nse: int,
    wanted: Sequence[bool],
    wide: bool,
) -> list[NDArray[np.integer] | None]:
    """The coordinates of the slots, one array for each dimension that is `wanted`, and None for each other dimension.

    They have the dtype of the index arrays. If there are none, they are int64 if `wide`, else int32. A slot without a
    valid coordinate or parent gets the size of the dimension as its coordinate. The arrays may contain anything.
    """

def locate(
    arrays: Sequence[NDArray[np.integer]],
    levels: Sequence[tuple[int, int, int, int]],
    nse: int,
    points: Sequence[NDArray[np.integer]],
) -> NDArray[np.integer]:
    """Returns the slot of the entry at each point, and -1 where none is stored or a coordinate is out of range.

    `points` has a contiguous vector of int32 or int64 for each dimension, at least one. The slots are int64 if int32
    does not count the `nse` slots. The index arrays may contain anything: all slots are in `[-1, nse)`.
    """

def faults(arrays: Sequence[NDArray[np.integer]], levels: Sequence[tuple[int, int, int, int]], slots: int = -1) -> int:
    """Returns the sum of the faults of index arrays, all int32 or all int64. It is 0 if they are well formed.

    The faults are 1 for pointers or array lengths, 2 for coordinates out of range or empty runs that do not start at 0,
    4 for coordinates out of order or repeated, 8 for more entries than room. The number of slots has to be `slots`,
    unless `slots` is -1.
    """

def transpose(
    keys: NDArray[np.integer], size: int, rows: NDArray[np.integer], pointers: bool
) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]]:
    """Groups the entries of a matrix by keys in [0, size), such as columns. The entries are sorted by their rows.

    Returns pointers to the groups, and the rows and the numbers of the entries in the new order. `rows` has the row of
    each entry, or, with `pointers`, the pointers from each row to its entries.
    """

def block(
    pointers: NDArray[np.integer], columns: NDArray[np.integer], column_count: int, height: int, width: int
) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]]:
    """Groups the entries of a matrix, which are sorted by row, into blocks of `height` rows and `width` columns.

    `pointers` lead from each row to its entries. Returns pointers from each row of blocks to its blocks, the column of
    each block, and for each entry its slot if blocks are dense and follow one another.
    """

def select_segments(
    pointers: NDArray[np.integer],
    coordinates: Sequence[NDArray[np.integer]],
    slices: Sequence[tuple[int, int, int]],
    parents: NDArray[np.integer] | None = None,
) -> tuple[NDArray[np.integer], list[NDArray[np.integer]], NDArray[np.integer]]:
    """Selects the entries of segments by a slice of the coordinates of each level, in the order of new coordinates.

    `coordinates` has the coordinates of a compressed level and of the singletons below it, sorted in each segment.
    `parents` are the positions above whose segments are read, in any order, possibly repeated. None reads all segments
    in order. A slice (start, step, size) selects the coordinates `start + k * step`, and k is the new coordinate.
    Returns the pointers from the parents to the selected entries, the new coordinates of these entries, and their
    positions. All arrays are int32, or all int64.

    The arrays may contain anything. Raises ValueError for parents and segments out of range, and for more entries than
    the dtype can count. If segments are not sorted, the result is any entries within the slices, or ValueError.
    """

def take_segments(
    pointers: NDArray[np.integer],
    coordinates: NDArray[np.integer],
    parents: NDArray[np.integer] | None = None,
    starts: NDArray[np.integer] | None = None,
    items: NDArray[np.integer] | None = None,
    size: int = 0,
    increases: bool = True,
) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]]:
    """Takes the segments of a compressed level below `parents` (None: all), in any order, with new coordinates.

    The coordinate c becomes `items[starts[c]]` to `items[starts[c + 1] - 1]`. Without `starts` it becomes `items[c]`,
    or is left out if that is negative. Without `items` it stays. New coordinates are below `size`, and distinct in each
    segment. `increases` promises that larger coordinates get larger new coordinates. Returns the pointers, and the new
    coordinates, sorted in each segment, and positions of the entries.

    All arrays are int32, or all int64, and may contain anything: segments out of range are empty. Raises ValueError for
    more entries than the dtype can count.
    """

def join_segments(
    parts: Sequence[tuple[NDArray[np.integer], NDArray[np.integer]]], shifts: Sequence[int]
) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]]:
    """Joins compressed levels, each (pointers, coordinates), below the same parents: the segments follow one another.

    The coordinates of part k grow by `shifts[k]`. Returns the pointers and coordinates, and for each entry the number
    of its position, counted through all parts. The arrays are as for `take_segments`.
    """

def pair_segments(
    first: tuple[NDArray[np.integer], NDArray[np.integer]], second: tuple[NDArray[np.integer], NDArray[np.integer]]
) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]]:
    """Pairs the positions of two compressed levels, each (pointers, coordinates), below each pair of parents.

    Returns the pointers from the pairs of parents, in lexicographic order, and for each pair of positions the one in
    the first and the one in the second level. The arrays are as for `take_segments`.
    """

def compress_dense(
    x: NDArray[np.generic], rows: int, kind: str, wide: bool
) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.generic]]:
    """Returns the pointers, columns and values of the nonzero elements of `x`, which is cut into `rows` equal rows.

    Pointers and columns are int64 if `wide`, else int32. `x` is contiguous. `kind` is "integer" (also for booleans),
    "floating" or "complex". Only floats and complex numbers have a sign that does not count: -0.0 is zero, NaN is not.
    """

def take(values: NDArray[np.generic], indices: NDArray[np.integer]) -> NDArray[Any]:
    """Returns `values[indices]`, with 0 for negative indices, aligned to 64 bytes.

    Raises ValueError for an index past the end.
    """

def scatter(points: Sequence[NDArray[np.integer]], shape: Sequence[int], values: NDArray[np.generic]) -> NDArray[Any]:
    """Returns an array of zeros with `values[i]` at the i-th point, aligned to 64 bytes.

    `points` has a contiguous vector of int32 or int64 for each dimension, at least one. Points outside the array are
    left out, all others are distinct. The memory of a large array is taken from the system where it is written to.
    """

def invert(indices: NDArray[np.integer], size: int) -> NDArray[np.integer]:
    """Returns `out` of shape (size,) with `out[indices[i]] = i`, and -1 elsewhere. Negative indices are skipped.

    The other indices are distinct.
    """

def image(x: NDArray[np.generic]) -> bytes:
    """Returns an image of a contiguous array: 64 bytes for each block of 4096 bytes.

    Different arrays of one length almost surely have different images. They are not cryptographic: hash the image.
    """

PARAMS_VERSION: int

MAX_CHUNKS: int
"""The chunks of a parallel loop, at most."""

LEVEL_KINDS: dict[str, int]
"""The codes of the kinds of levels, by name."""

def routine(name: str) -> int:
    """Returns the address of the kernel of a routine (see `csrc/routines/params.h`).

    `name` is "assemble", "check", "expand", "nonzero", "swap" or "validate". Raises KeyError for other names.
    """
