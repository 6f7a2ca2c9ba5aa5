"""Creation of sparse tensors from dense arrays and from the sparse arrays of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from math import prod
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.typing import DTypeLike

from jsparse.base import _native
from jsparse.base.arrays import check_numbers, device_array, host_array, parse_dtype
from jsparse.base.limits import check_capacity, parse_nse
from jsparse.convert import dynamic_creation
from jsparse.convert.choice import DEFAULT_USES, choose_format
from jsparse.convert.composed import to_plain
from jsparse.convert.dlpack import from_dlpack, is_shared
from jsparse.convert.jax_sparse import from_jax_sparse, is_jax_sparse
from jsparse.convert.scipy_sparse import blocks_from_scipy, from_scipy
from jsparse.convert.scipy_structure import is_scipy
from jsparse.convert.slots import plain_pattern
from jsparse.convert.sums import NUMBERS
from jsparse.errors import DTypeError, NotYetSupportedError, PatternError
from jsparse.formats import Format, Pattern, default_format
from jsparse.formats.composed import ComposedFormat, is_composed
from jsparse.formats.format import is_auto
from jsparse.tensor.composed import ComposedTensor, Composition
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.leaves import with_sound_leaves
from jsparse.tensor.overriding import Overriding
from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike, dense_levels

if TYPE_CHECKING:
    from scipy.sparse import sparray

DTYPE_OF_NUMBERS = "dtype= of asarray to be a dtype of numbers"

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")


def asarray(
    x: TensorLike | npt.ArrayLike,
    format: Format | ComposedFormat | str | None = None,
    *,
    dtype: DTypeLike | None = None,
    dynamic: bool = False,
    nse: int | None = None,
    uses: Sequence[int] = DEFAULT_USES,
) -> SparseTensor:
    """Make a sparse tensor from a dense array, a SparseTensor, or a sparse array of SciPy, JAX, PyTorch or CuPy.

    Zeros of a dense array are dropped, NaNs are kept. Explicit zeros of sparse arrays are kept. Duplicate entries of
    sparse arrays are summed.

        >>> A = jsparse.asarray(np.array([[0.0, 1.0], [2.0, 0.0]], np.float32), format="csc")
        >>> B = jsparse.asarray(scipy.sparse.random_array((1000, 800), density=0.01))

    Args:
        x: the array; a dense one may be a numpy or jax array or nested lists. A pattern becomes a tensor of ones.
        format: a format, or its name or notation. The default is csr for matrices, and all levels compressed for other
            ranks. A BCOO becomes coo, with dense levels for its `n_dense`; a BCSR becomes csr; a PyTorch tensor with
            dense dimensions becomes coo with dense levels; a SparseTensor keeps its format. "auto" chooses a format
            that suits the entries (see `jsparse.choose_format`).
        dtype: the dtype of the values; by default the dtype of `x`, and int for a pattern. Duplicates are summed in it.
            Numbers of `x` and sums are rounded once, directly to this dtype, and bool is `x != 0`. Integers from NumPy
            arrays wrap as in jnp. Python integers must fit.
        dynamic: make a dynamic pattern: index arrays are leaves of the pytree, and one compiled program serves all
            patterns of one shape, format and nse. A traced array requires it. A BCOO or BCSR with traced indices, or
            with `n_batch`, is always dynamic (see `jsparse.convert.jax_sparse.from_jax_sparse`). A tensor whose levels
            are all dense is never dynamic, because it has no index arrays.
        nse: the capacity of a dynamic pattern, by default the number of stored entries; a traced dense array requires
            it. For a static pattern, `nse` is an upper bound, which is checked.
        uses: for format="auto": for each use of the tensor, the number of columns of X in A @ X; 1 for a vector.

    Raises PatternError for more than `nse` entries, and for a traced array without `dynamic=True` and `nse=`;
    FormatError and SubscriptError for an invalid format; DTypeError if `x` does not hold numbers, is a masked array, or
    needs int64 indices while x64 is off; IntegerRangeError if a Python integer does not fit `dtype`, or a 64-bit
    integer does not fit int32 while x64 is off.
    """
    if isinstance(x, Pattern | DynamicPattern | Composition):
        pattern = plain_pattern(x) if isinstance(x, Composition) else x
        x = of_ones(pattern, int if dtype is None else parse_dtype(dtype, DTYPE_OF_NUMBERS))
    if is_auto(format):
        tensor = asarray(x, dtype=dtype, nse=nse)
        chosen = choose_format(tensor, uses).convert(tensor)
        return chosen.dynamic() if dynamic else chosen
    nse = parse_nse(nse, "asarray")
    dtype = None if dtype is None else parse_dtype(dtype, DTYPE_OF_NUMBERS)
    if format is not None and not isinstance(x, SparseTensor) and is_composed(format):
        is_kept = is_scipy(x) and not dynamic and nse is None
        in_blocks = blocks_from_scipy(cast("sparray", x), format, dtype) if is_kept else None
        return asarray(x, dtype=dtype, dynamic=dynamic, nse=nse).asformat(format) if in_blocks is None else in_blocks
    if isinstance(x, SparseTensor):
        tensor = x if format is None else x.asformat(format, nse=nse)
    else:
        assert not isinstance(format, ComposedFormat)
        if isinstance(x, jax.core.Tracer):
            tensor = _from_traced(x, format, dynamic, nse)
        elif is_jax_sparse(x):
            tensor = from_jax_sparse(x, format, dynamic, nse, dtype)
        elif is_shared(x):
            tensor = from_dlpack(x, format, dynamic, nse, dtype)
        elif is_scipy(x):
            pattern, values, fresh = from_scipy(x, _format_or_default(format, len(cast("sparray", x).shape)), dtype)
            tensor = _make(values, pattern, dtype, fresh)
        else:
            _check_is_dense(x)
            tensor = _from_dense(host_array(x, NUMBERS, dtype), format, dtype)
    if tensor.is_dynamic or (dynamic and not tensor.format.is_dense):  # a tensor of dense levels stays static
        tensor = tensor if tensor.is_dynamic and nse is None else tensor.dynamic(nse)
    else:
        check_capacity(tensor.nse, nse, lambda: f"the slots of {tensor!r}")
    return tensor if dtype is None or tensor.dtype == dtype else tensor.astype(dtype)


def of_ones(pattern: Pattern | DynamicPattern, dtype: DTypeLike = float) -> SparseTensor:
    """Make a tensor of ones on a pattern. After an overflow, floats are NaN, and a program of other numbers fails."""
    return SparseTensor._poison_on_overflow(pattern.in_use(jnp.ones(pattern.nse, dtype)), pattern)


def _check_is_dense(x: object) -> None:
    """Raise DTypeError, which names an alternative, for lists of tensors and for sparse tensors of other libraries."""
    if isinstance(x, list | tuple) and any(isinstance(one, SparseTensor) for one in x):
        raise DTypeError(
            "Expected an array for jsparse.asarray, but got a sequence of SparseTensors. Join them with jsparse.stack "
            "or jsparse.concatenate."
        )
    if type(x).__module__.partition(".")[0] == "sparse" and hasattr(x, "fill_value"):
        raise DTypeError(
            "Expected an array, or a SciPy or JAX sparse array, for jsparse.asarray, but got a pydata/sparse array. "
            "Write x = x.asformat('coo'), then jsparse.SparseTensor.from_coords(x.coords, x.data, x.shape)."
        )


def as_sparse_operand(x: Any, text: str, composed: bool = False) -> Any:
    """Convert a BCOO, BCSR or scipy.sparse array by `jsparse.asarray`. Return every other operand unchanged.

    Composed tensors and compositions become plain ones, unless `composed` says that the caller takes them.

    Raises NotYetSupportedError for a BCOO or BCSR with batch dimensions, because only `jax.vmap` can map over them. In
    the message, `text` names the function that got the operand.
    """
    if type(x) is ComposedTensor:
        return x if composed else to_plain(x)
    if type(x) is Composition:
        return x if composed else plain_pattern(x)
    # Eager calls take this path: a tuple of types is four times as fast as a union of them, and jax.Array is slow.
    if isinstance(x, (SparseTensor, str, np.ndarray, jax.Array)):
        return x
    if isinstance(x, Overriding):
        raise x._refusal(text)
    if not (is_scipy(x) or is_jax_sparse(x) or is_shared(x)):
        return x
    if getattr(x, "n_batch", 0):
        kind = type(x).__name__
        raise NotYetSupportedError(
            f"Expected the operands of {text} to have no batch dimensions, but one is a {kind} of shape {x.shape} with "
            f"n_batch={x.n_batch}. Map over it with jax.vmap, or pass x.update_layout(n_batch=0)."
        )
    return asarray(x)


def of_any_array(
    name: str, of_arrays: Callable[..., Any], operand: str | None = None, *, patterns: bool = False
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[TensorLike, P], R]]:
    """Return a decorator that extends a function of a SparseTensor to arrays. Sparse arrays become SparseTensors.

    Args:
        name: the name of the decorated function in jsparse, for messages.
        of_arrays: the function that is called for dense arrays, with the same arguments.
        operand: what messages call the tensor, whose leaves are checked; None if the decorated function checks them.
        patterns: whether the decorated function takes patterns, too.
    """
    kinds = (SparseTensor, Pattern, DynamicPattern) if patterns else (SparseTensor,)

    def extend(function: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[TensorLike, P], R]:
        def apply(A: TensorLike, /, *args: P.args, **kwargs: P.kwargs) -> R:
            x = A if type(A) is SparseTensor else as_sparse_operand(A, f"jsparse.{name}")
            if isinstance(x, kinds):
                checked: Any = x if operand is None else with_sound_leaves(cast(SparseTensor, x), operand)
                return function(checked, *args, **kwargs)
            return of_arrays(x, *args, **kwargs)

        update_wrapper(apply, function)
        return apply

    return extend


def _from_traced(x: jax.Array, format: Format | str | None, dynamic: bool, nse: int | None) -> SparseTensor:
    check_numbers(x.dtype, NUMBERS)
    layout = _format_or_default(format, x.ndim)
    if layout.is_dense:
        return dense_levels(x, layout)
    if not dynamic or nse is None:
        raise PatternError(
            "Expected dynamic=True and nse= (the capacity, in entries) for a traced array, because its nonzeros are "
            f"known only at run time, but got dynamic={dynamic} and nse={nse}. Pass both, or make the SparseTensor "
            "outside jit and pass it in: its values may then be traced."
        )
    return dynamic_creation.from_traced_dense(x, dynamic_type(x.shape, layout, nse))


def _format_or_default(format: Format | str | None, ndim: int) -> Format:
    return default_format(ndim) if format is None else Format.plain(format, ndim)


def _from_dense(x: np.ndarray, format: Format | str | None, dtype: np.dtype | None) -> SparseTensor:
    layout = _format_or_default(format, x.ndim)
    if layout.is_dense:
        pattern = Pattern._of_valid(x.shape, layout, ())
        return _make(x.transpose(layout.order).reshape(-1), pattern, dtype)
    if not x.flags.c_contiguous:
        x = np.ascontiguousarray(x)
    *above, last = layout.levels
    if layout.order == tuple(range(x.ndim)) and last.kind.has_segments and all(x.kind.is_full for x in above):
        rows = prod(x.shape[:-1])  # not x.size // x.shape[-1]: rows may have length 0
        wide = max(x.size, rows, x.shape[-1]) >= 2**31
        pointers, columns, values = _native.compress_dense(x, rows, _kind(x.dtype), wide)
        return _make(values, Pattern._of_valid(x.shape, layout, (pointers, columns)), dtype, fresh=True)
    _, offsets, values = _native.compress_dense(x, 1, _kind(x.dtype), x.size >= 2**31)
    pattern, built = Pattern.from_rows(np.unravel_index(offsets, x.shape), x.shape, layout)
    return _make(built.sum_per_slot(values), pattern, dtype, fresh=True)


def _kind(dtype: np.dtype) -> str:
    """Return "integer" (also for bool), "floating" or "complex". The extension then knows how to find nonzero elements.

    The float -0.0 counts as zero, and NaN as nonzero.
    """
    if dtype == np.bool_ or jnp.issubdtype(dtype, jnp.integer):
        return "integer"
    return "complex" if jnp.issubdtype(dtype, jnp.complexfloating) else "floating"


def _make(values: np.ndarray, pattern: Pattern, dtype: np.dtype | None, fresh: bool = False) -> SparseTensor:
    return SparseTensor(device_array(values, NUMBERS, dtype, fresh), pattern)
