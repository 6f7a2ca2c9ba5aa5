"""The run time of generated kernels: one XLA FFI target, direct runs on host arrays, and index work on coordinates.

Nothing in here knows what a kernel computes. A kernel is the address of

    int kernel(Context* ctx, void* const* buffers, const int64_t* const* dims);

(see `csrc/kernel/abi.h`). A *call* joins a kernel with the arrays bound to it and is known by its `key`.
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
    """A handle on a bound call. When the last handle of a key dies, the call is retired, unless it is pinned.

    Retiring frees the owner and the bound arrays at once if no program runs a kernel, else soon after the last one
    running has finished.
    """

    @property
    def key(self) -> str: ...
    def check_operands(self, operands: Sequence[tuple[int, Sequence[int]]]) -> None:
        """Raises ValueError unless arguments and results of these elements and shapes are what the call takes.

        An element is the kind letter of its NumPy dtype times 256, plus its bytes.
        """

    def run(self, arguments: Sequence[NDArray[np.generic]]) -> int:
        """Runs the call on host arrays, its arguments and then its results, as the function `run` does."""

def handlers() -> dict[str, Any]:
    """The handlers of each stage, as `jax.ffi.register_ffi_target` takes them.

    Register them as target `jsparse_kernel` of platform `cpu`. The custom call's string attributes are `key`, `recipe`
    and `bound`; the latter two only matter to the resolver.
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
    """Makes `key` known as the kernel at `address`.

    The kernel's buffer `b` is operand `slots[b]` of (arguments, then results) of the custom call, or, where
    `slots[b] < 0`, the array `bound[-1 - slots[b]]`, which must be contiguous and aligned. `signature` says what these
    buffers have to be (`csrc/kernel/signature.h`): bound arrays are compared with it now, operands at each call, which
    then fails with the XLA error INVALID_ARGUMENT; without it nothing is compared. With `results` a call has to have
    exactly that many results behind its arguments. `owner`, which keeps the machine code mapped, and the bound arrays
    live as long as the call. With `pin` the call is never retired. `recipe` and `bound_names` are what
    `counted` calls it.

    Binding a key again gives a further handle on the same call; the other arguments then play no part (but `pin`
    sticks), since a key is a digest of everything that defines its call.
    """

def check_buffers(signature: Sequence[int], buffers: Sequence[tuple[int, Sequence[int]] | None]) -> None:
    """Raises ValueError unless buffers of these elements and shapes are what the signature says; None is any buffer."""

def find_call(key: str) -> Call | None:
    """A further handle on a bound call."""

def live_calls() -> int:
    """How many calls are bound and not retired."""

def set_resolver(f: _Resolver | None) -> _Resolver | None:
    """Sets what binds a call that XLA needs and nobody has bound: `f(key, recipe, bound)`, and for a program that
    carries index arrays `f(key, recipe, bound, carried, arrays)`.

    It happens when an executable is loaded from a cache, a file or another process. `f` must `bind_call(key, ...)` and
    return the handle; the executable then has one of its own. Index arrays are known when the call first runs, and
    belong to XLA; before, `arrays` is None, and `f` need not bind. It may run on any thread. Its exception becomes the
    XLA error NOT_FOUND. Returns the resolver before it.
    """

def run(
    address: int,
    buffers: Sequence[NDArray[np.generic]],
    threads: int = 0,
    signature: Sequence[int] | None = None,
    recipe: str = "",
) -> int:
    """Runs a kernel on host arrays, without XLA and without the GIL, and returns its return code.

    Each array must be contiguous and aligned, and fit the `signature`, if there is one (as in `bind_call`); results are
    written in place, and whether an array is read-only is not looked at. Buffers are aligned as their arrays are, which
    need not be the 64 bytes of XLA's. `threads = 0` takes all that the process may use; threads are only made when the
    kernel opens a parallel loop of more than one chunk. Without a `recipe` the run is not `counted`.
    """

def run_python(function: Callable[[int, int, int], int], context: int, buffers: int, dims: int) -> int:
    """What `function` returns of these addresses, as a kernel does. Whatever it raises becomes the context's error and
    the code 1, also before its first instruction."""

def open_profile() -> None:
    """Count calls of kernels from now on, on all threads. Profiles nest."""

def close_profile() -> None:
    """Close a profile. When the last one is closed, calls are no longer counted, and all counts are forgotten."""

def counted() -> list[tuple[str, str, tuple[int, ...], int, int]]:
    """What ran since the first open profile was opened: recipe and names of index arrays of the call, its buffers, the
    number of calls, and the nanoseconds of all of them.

    The buffers are one tuple of integers, for each its element (as in `Call.check_operands`), its rank and its sizes.
    """

def set_guard(on: bool) -> None:
    """Run all kernels on copies of their buffers from now on; no memory lies behind a copy, nor behind a workspace
    (`csrc/kernel/guard.h`).

    For tests.
    """

def last_error() -> str:
    """What the kernel last run by `run` on this thread said about its failure; empty if nothing."""

def memory_bytes() -> int:
    """The machine's memory, or 2**63 - 1 where the system does not say."""

def lexsort(keys: Sequence[NDArray[np.integer]], sizes: Sequence[int]) -> NDArray[np.int64]:
    """The stable permutation that sorts by `keys[0]`, then `keys[1]`, and so on (the reverse of `numpy.lexsort`).

    Entries of `keys[k]` lie in `[0, sizes[k])`, else ValueError; sizes go up to 2**62. Takes linear time.
    """

def compress(sorted_parents: NDArray[np.integer], parents: int, dtype: DTypeLike) -> NDArray[np.integer]:
    """Pointers such that the entries of parent `p` are those from `pointers[p]` to `pointers[p + 1]`.

    `dtype` is int32 or int64. ValueError if the entries are not sorted, lie outside `[0, parents)` or are too many to
    be counted in `dtype`.
    """

def out_of_range(keys: NDArray[np.integer], size: int) -> int:
    """The index of the first entry outside `[0, size)`, or -1."""

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
    """The index arrays of the entries at `rows`, one contiguous int32 or int64 vector (n,) per dimension, in any order.

    A level is (kind, dimension, unique, size), its kind being one of `LEVEL_KINDS`. So many last levels as
    `sorted_suffix` says need no sorting: inputs that are equal in the levels before come in the order of these.

    Gives the arrays and the number of slots; then of each distinct entry its first input (None: the inputs as they
    come) and its slot (None: 0, 1, 2, …); then the inputs that repeat an entry and the numbers of the entries that they
    repeat (None: none do). None if a coordinate is outside; OverflowError if 64 bits do not count the slots.
    """

def accumulate(
    rows: Sequence[NDArray[np.integer]], levels: Sequence[tuple[int, int, int, int]], values: NDArray[np.generic]
) -> tuple[tuple[NDArray[np.integer], ...], int, NDArray[Any]] | None:
    """As `assemble`, with the values of the entries: gives the arrays, the number of slots and their values, in which
    those of one slot are summed in the order of the inputs.

    None where only `assemble` serves: for levels and values that are rare, few or sorted entries, range levels, and
    coordinates outside.
    """

def expand(
    arrays: Sequence[NDArray[np.integer]],
    levels: Sequence[tuple[int, int, int, int]],
    nse: int,
    wanted: Sequence[bool],
    wide: bool,
) -> list[NDArray[np.integer] | None]:
    """Per dimension that is wanted, the coordinates of the slots: int64 if the arrays are, or, without any, if `wide`.

    A slot that the arrays do not reach has the dimension's size as its coordinate. Any content is safe.
    """

def faults(arrays: Sequence[NDArray[np.integer]], levels: Sequence[tuple[int, int, int, int]], slots: int = -1) -> int:
    """0 if the index arrays, all int32 or all int64, are well formed, and have that number of slots, unless it is -1.

    Else the sum of: 1 (pointers), 2 (coordinates outside, empty runs that do not start at 0), 4 (order or repeats),
    8 (more entries than room).
    """

def transpose(
    keys: NDArray[np.integer], size: int, rows: NDArray[np.integer], pointers: bool
) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]]:
    """Entries sorted by their rows, grouped by key in [0, size): pointers, rows and the numbers of the entries.

    `rows` are their rows or, with `pointers`, the pointers from rows to entries.
    """

def select_segments(
    pointers: NDArray[np.integer],
    coordinates: Sequence[NDArray[np.integer]],
    slices: Sequence[tuple[int, int, int]],
    parents: NDArray[np.integer] | None = None,
) -> tuple[NDArray[np.integer], list[NDArray[np.integer]], NDArray[np.integer]]:
    """The entries of segments whose coordinates slices select, in the order of their new coordinates.

    `coordinates` are those of the levels of one chain, sorted below each of the `parents` (None: all of them, in
    order), which may come in any order and repeat. A slice (start, step, size) selects `start + k * step`, and k is the
    new coordinate. Gives the pointers from the parents to the selected entries, their new coordinates and their
    positions. All arrays are int32, or all int64.

    Any content is safe: ValueError for parents and segments outside, and for more entries than the type counts. Where
    segments are not sorted, the result is anything within the slices, or ValueError.
    """

def compress_dense(
    x: NDArray[np.generic], rows: int, kind: str, wide: bool
) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.generic]]:
    """Pointers, columns (int64 if `wide`, else int32) and values of the nonzeros of `x`, in rows of equal length.

    `x` is contiguous; `kind` is "integer" (booleans too), "floating" or "complex": -0.0 is zero, NaN is not.
    """

def take(values: NDArray[np.generic], indices: NDArray[np.integer]) -> NDArray[Any]:
    """`values[indices]`, zero where an index is negative; ValueError for indices past the end. Aligned to 64 bytes."""

def invert(indices: NDArray[np.integer], size: int) -> NDArray[np.integer]:
    """(size,) `out[indices[i]] = i` and -1 elsewhere, for distinct indices; negative ones are skipped."""

def image(x: NDArray[np.generic]) -> bytes:
    """64 bytes for every 4096 of a contiguous array; unlike arrays of one length have unlike images. Not cryptographic:
    hash them."""

PARAMS_VERSION: int

MAX_CHUNKS: int
"""The chunks of a parallel loop, at most."""

LEVEL_KINDS: dict[str, int]
"""The codes of the kinds of levels, by name."""

def routine(name: str) -> int:
    """The address of the kernel of that name: "assemble", "check", "expand", "nonzero", "swap" or "validate" (see
    `csrc/routines/params.h`), else KeyError."""
