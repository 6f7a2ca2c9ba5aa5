"""Random corruptions of users' inputs. Each case is run, and its result is checked."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from hostile import kernels
from hostile.kernels import BOUND, COLUMNS, FORMATS, LARGEST, MATRICES, NSE, ROWS, SOLID_FORMATS, TENSORS, X
from jax.experimental.sparse import BCOO, BCSR

import jsparse
from jsparse import JsparseError, SparseTensor

Rng = np.random.Generator
HUGE = (-1, -5, 10**8, 2**31 - 1, -(2**31), 900, 7)  # numbers in corrupt index arrays


class Wrong(Exception):  # noqa: N818
    """A result that no operand explains, or no error where one was expected."""


@dataclass(frozen=True)
class Case:
    """One hostile call: `run` raises one of `errors`, or gives numbers that operands explain, `least` or more.

    JAX has its own errors for leaves that are no arrays.
    """

    text: str
    run: Callable[[], Any]
    may_be_nan: Callable[[], bool] = lambda: False
    least: float = 0
    must_fail: bool = False
    errors: tuple[type[Exception], ...] = (JsparseError,)

    def check(self) -> None:
        """Run the case. Raises Wrong for a wrong result, and passes on errors that are not in `errors`."""
        try:
            result = jax.block_until_ready(self.run())
        except self.errors:
            return
        if self.must_fail:
            raise Wrong(f"{self.text}: no error")
        for array in (np.asarray(x, np.float64) for x in jax.tree.leaves(result)):
            if not np.isfinite(array).all() and self.may_be_nan():
                continue
            if array.size and not (np.isfinite(array) & (array >= self.least) & (array <= BOUND)).all():
                raise Wrong(f"{self.text}: got {array}")


def pick(rng: Rng, items: Any) -> Any:
    """One of the items."""
    return items[int(rng.integers(len(items)))]


def _drawn(rng: Rng) -> tuple[str, SparseTensor, str, Callable[[SparseTensor], Any]]:
    """A dynamic tensor and an operation on it."""
    if rng.random() < 0.8:
        format, (name, operation) = pick(rng, FORMATS), pick(rng, list(MATRICES.items()))
        return format, kernels.dynamic(format, int(rng.integers(50))), name, operation
    format, (name, operation) = pick(rng, SOLID_FORMATS), pick(rng, list(TENSORS.items()))
    return format, kernels.dynamic(format, int(rng.integers(50)), 3), name, operation


def garbage(rng: Rng, array: np.ndarray) -> np.ndarray:
    """An index array of the right length and dtype with wrong contents."""
    found = np.array(array)
    if not found.size:
        return found
    match int(rng.integers(4)):
        case 0:
            found.flat[int(rng.integers(found.size))] = pick(rng, HUGE)
        case 1:
            found[:] = rng.integers(-5, 40, found.shape)
        case 2:
            found[:] = np.sort(found)[::-1]
        case 3:
            found[rng.random(found.shape) < 0.5] = pick(rng, HUGE)
    return found


def index_arrays(rng: Rng) -> Case:
    """A case where the index arrays of a dynamic tensor hold garbage."""
    format, A, name, operation = _drawn(rng)
    arrays = tuple(jnp.asarray(garbage(rng, np.asarray(a))) if rng.random() < 0.7 else a for a in A.pattern.arrays)
    broken = SparseTensor(A.values, replace(A.pattern, arrays=arrays))
    run = (lambda: kernels.traced(operation, broken)) if rng.random() < 0.8 else (lambda: operation(broken))
    # Pointers that count more entries than the capacity are an overflow, whose results are NaN.
    return Case(f"{name} of {format} with garbage", run, lambda: name in kernels.ASSEMBLING or overflowed(broken))


def overflowed(A: SparseTensor) -> bool:
    """Whether pointers count more entries than the capacity: then results are NaN."""
    assert A.is_dynamic
    with jax.enable_x64(True):
        return bool(np.any(A.pattern.overflowed))


LEAF_CHANGES: dict[str, Callable[[Any], Any]] = {
    "cut": lambda v: v[:3],
    "stacked": lambda v: jnp.stack([v, v]),
    "axis": lambda v: v[None],
    "scalar": lambda v: v[0],
    "doubled": lambda v: jnp.concatenate([v, v]),
    "none": lambda v: None,
    "object": lambda v: object(),
    "list": lambda v: [1.0, 2.0],
    "number": lambda v: 1.0,
    "shape": lambda v: jax.ShapeDtypeStruct(v.shape, v.dtype),
    "text": lambda v: "leaf",
    "swapped": lambda v: np.asarray(v).astype(v.dtype.newbyteorder(">")),
    "empty": lambda v: v[:0],
    "column": lambda v: v[:, None],
    "object array": lambda v: np.asarray(v).astype(object),
}


def leaves(rng: Rng) -> Case:
    """A case where a `tree.map` changed one leaf or all of them."""
    format, A, name, operation = _drawn(rng)
    if rng.random() < 0.3:
        A = jsparse.asarray(A.todense(), format)
    change, (found, tree) = pick(rng, list(LEAF_CHANGES)), jax.tree.flatten(A)
    at = int(rng.integers(len(found) + 1))
    changed = [LEAF_CHANGES[change](leaf) if n == at or at == len(found) else leaf for n, leaf in enumerate(found)]
    same = [
        getattr(a, "shape", None) == b.shape and getattr(a, "dtype", None) == b.dtype
        for a, b in zip(changed, found, strict=True)
    ]
    broken = jax.tree.unflatten(tree, changed)
    # A BCOO may be a batch if all leaves have the batch axis.
    only_values = at == 0 or not A.is_dynamic
    is_batch = change in ("stacked", "axis") and (at == len(found) or len(found) == 1)
    legal = (only_values and name in kernels.BY_PATTERN) or (is_batch and name == "to_bcoo")
    fails = change != "shape" and not all(same) and not legal
    errors = (JsparseError, TypeError)
    return Case(f"{name} of {format}, leaf {at} {change}", lambda: operation(broken), must_fail=fails, errors=errors)


def casts(rng: Rng) -> Case:
    """A case where all leaves were cast or averaged. It is an error, as index arrays are among the leaves."""
    format, A, name, operation = _drawn(rng)
    dtype = pick(rng, ("bfloat16", "int8", "float32", "float16", "uint32", "int16", "bool"))
    step: Callable[[Any], Any] = pick(
        rng, (lambda v: v.astype(dtype), lambda v: v - 0.1 * v, lambda v: 0.9 * v + 0.1 * v)
    )
    broken = jax.tree.map(step, A)
    # jax.grad refuses values that are no floats.
    errors = (JsparseError, TypeError) if name in kernels.DERIVATIVES else (JsparseError,)
    return Case(f"{name} of {format}, all leaves {dtype}", lambda: operation(broken), must_fail=True, errors=errors)


def pickles(rng: Rng) -> Case:
    """A case where one byte of a pickled static tensor changed. If it loads, it is the same tensor, or no tensor."""
    format = pick(rng, FORMATS)
    A = jsparse.asarray(kernels.matrix(int(rng.integers(50))), format)
    data = bytearray(pickle.dumps(A))
    at = int(rng.integers(len(data)))
    data[at] ^= int(rng.integers(1, 256))

    def run() -> Any:
        try:
            loaded = pickle.loads(bytes(data))
        except Exception as error:  # any error: the bytes are instructions for Python
            raise JsparseError(str(error)) from error
        if not isinstance(loaded, SparseTensor):
            raise JsparseError("the object is no tensor")
        if loaded.pattern != A.pattern or not np.array_equal(loaded.values, A.values):
            raise Wrong(f"a pickle with byte {at} changed loads as another tensor")
        return loaded @ X

    return Case(f"byte {at} of a pickle of {format}", run)


def _corrupt_scipy(rng: Rng) -> Any:
    x = kernels.matrix(int(rng.integers(50)))
    kind = pick(rng, ("csr", "csc", "coo"))
    S = scipy.sparse.csr_array(x).asformat(kind)
    if kind == "coo":
        S.coords = tuple(garbage(rng, row) for row in S.coords) if hasattr(S, "coords") else S.coords
        return S
    match int(rng.integers(6)):
        case 0:
            S.indptr[int(rng.integers(len(S.indptr)))] = pick(rng, HUGE)
        case 1:
            S.indptr[-1] = pick(rng, HUGE)
        case 2:
            S.indices[int(rng.integers(len(S.indices)))] = pick(rng, HUGE)
        case 3:
            S.indptr = S.indptr[: int(rng.integers(len(S.indptr)))]
        case 4:
            S.indices = S.indices[: int(rng.integers(len(S.indices)))]
        case 5:
            S.data = S.data[: int(rng.integers(len(S.data)))]
    return S


def foreign(rng: Rng) -> Case:
    """A case where a corrupt scipy array is converted to any format."""
    S, format, dynamic = _corrupt_scipy(rng), pick(rng, (*FORMATS, "dense")), bool(rng.random() < 0.3)
    return Case(f"corrupt scipy {S.format} to {format}", lambda: jsparse.asarray(S, format, dynamic=dynamic) @ X)


def jax_sparse(rng: Rng) -> Case:
    """A case with a BCOO or BCSR whose indices are garbage. Indices out of range are padding."""
    x = kernels.matrix(int(rng.integers(50)))
    S = scipy.sparse.csr_array(x)
    values = jnp.asarray(S.data)
    if rng.random() < 0.5:
        indices = np.stack(S.tocoo().coords, 1)
        M: Any = BCOO((values, jnp.asarray(garbage(rng, indices))), shape=x.shape)
    else:
        index = tuple(jnp.asarray(garbage(rng, array)) for array in (S.indices, S.indptr))
        M = BCSR((values, *index), shape=x.shape)
    format = pick(rng, (*FORMATS, None))
    run = (
        (lambda: jsparse.asarray(M, format) @ X) if rng.random() < 0.5 else (lambda: jsparse.einsum("ij,jk->ik", M, X))
    )
    return Case(f"corrupt {type(M).__name__} to {format}", run)


@jax.jit
def _gathered(table: Any, x: Any) -> Any:
    return jsparse.evaluate("y[t[p],k] += x[s[p],k]", t=table, s=table, x=x, shape=(ROWS, kernels.WIDTH))


def tables(rng: Rng) -> Case:
    """A case with an index table that holds garbage. Indices out of range contribute nothing."""
    table = garbage(rng, rng.integers(0, ROWS, NSE).astype(np.int32))
    if rng.random() < 0.5:
        return Case("a traced index table", lambda: _gathered(table, X))
    A = jsparse.asarray(kernels.matrix(int(rng.integers(50))), pick(rng, FORMATS))
    return Case("a static index table", lambda: jsparse.evaluate("y[p] = A[t[p],j] * x[j]", A=A, t=table, x=X[:, 0]))


def coordinates(rng: Rng) -> Case:
    """A case with coordinates out of range. They are an error, or padding if nse is given."""
    coords = np.stack([garbage(rng, rng.integers(0, size, 12)) for size in (ROWS, COLUMNS)])
    values, nse = rng.integers(1, LARGEST + 1, 12).astype(np.float32), pick(rng, (None, NSE, 3))
    format = pick(rng, FORMATS)
    return Case(
        f"coordinates to {format}",
        lambda: SparseTensor.from_coords(coords, values, (ROWS, COLUMNS), format, nse=nse) @ X,
    )
