"""The candidates of a product with one CSR matrix: jsparse and its peers, each as a factory of one timed step."""

from __future__ import annotations

import importlib.util
import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from harness import NotInstalledError, Step, UnavailableError
from jax.experimental import sparse
from numpy.typing import NDArray
from suitesparse import dense_step

import jsparse

__all__ = ["Product", "dense_limit", "import_torch", "jitted", "matmul", "products", "torch_csr"]

DENSE_LIMIT = 2 << 30


@dataclass(frozen=True, slots=True)
class Product:
    """A computation `f(matrix, *operands)`, written for each peer; None if it cannot be written for a peer."""

    jsparse: Callable[..., Any]
    scipy: Callable[..., Any] | None
    torch: Callable[..., Any] | None
    bcoo: Callable[..., Any] | None
    bcsr: Callable[..., Any] | None
    dense: Callable[..., Any] | None
    graphblas: Callable[..., Any] | None = None


def matmul(subscripts: str, spelled: Callable[[Any, Any], Any] = operator.matmul, **others: Any) -> Product:
    """A product of two operands: an einsum for jsparse, the function `spelled` for its peers, except for `others`."""
    same = dict.fromkeys(("scipy", "bcoo", "bcsr", "dense", "graphblas"), spelled)
    spellings = {**same, "torch": lambda _, a, x: spelled(a, x), **others}
    return Product(jsparse=lambda a, x: jsparse.einsum(subscripts, a, x), **spellings)


def products(
    product: Product, matrix: Callable[[], sp.csr_array], operands: Callable[[], Sequence[NDArray[Any]]]
) -> dict[str, Callable[[], Step]]:
    """All peers of `product` as candidates. Nothing is computed before a factory is called."""
    found = {
        "jsparse": _jax(product.jsparse, lambda: jsparse.asarray(matrix(), format="csr"), operands),
        "scipy": _scipy(product.scipy, matrix, operands),
        "torch (int32)": _torch(product.torch, matrix, operands, np.int32),
        "torch (int64)": _torch(product.torch, matrix, operands, np.int64),
        "GraphBLAS": _graphblas(product.graphblas, matrix, operands),
        "jax BCOO": _jax(product.bcoo, lambda: sparse.BCOO.from_scipy_sparse(matrix()), operands),
        "jax BCSR": _jax(product.bcsr, lambda: sparse.BCSR.from_scipy_sparse(matrix()), operands),
        "jax dense": _jax(product.dense, lambda: _dense(matrix()), operands),
    }
    return {name: factory for name, factory in found.items() if factory is not None}


def jitted(function: Callable[..., Any], *arguments: Any) -> Step:
    """A step that runs `jax.jit(function)` and waits for its result."""
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*arguments))


def dense_limit(shape: Sequence[int], itemsize: int = 4) -> None:
    """Raise `UnavailableError` if a dense array of `shape` is larger than 2 GiB."""
    size = itemsize * int(np.prod(shape, dtype=np.int64))
    if size > DENSE_LIMIT:
        raise UnavailableError(f"skipped: would need {size / (1 << 30):.0f} GiB")


def import_torch() -> Any:
    """The module `torch`, set to two threads. Raises `NotInstalledError` if it is not installed."""
    if importlib.util.find_spec("torch") is None:
        raise NotInstalledError("torch")
    import torch

    torch.set_num_threads(2)
    return torch


def _dense(matrix: sp.csr_array) -> jax.Array:
    dense_limit(matrix.shape)
    return jnp.asarray(matrix.toarray())


def _jax(
    function: Callable[..., Any] | None, convert: Callable[[], Any], operands: Callable[[], Sequence[NDArray[Any]]]
) -> Callable[[], Step] | None:
    if function is None:
        return None
    return lambda: jitted(function, convert(), *(jnp.asarray(operand) for operand in operands()))


def _scipy(
    function: Callable[..., Any] | None,
    matrix: Callable[[], sp.csr_array],
    operands: Callable[[], Sequence[NDArray[Any]]],
) -> Callable[[], Step] | None:
    if function is None:
        return None

    def factory() -> Step:
        a, rest = matrix(), operands()
        return lambda: function(a, *rest)

    return factory


def _graphblas(
    function: Callable[..., Any] | None,
    matrix: Callable[[], sp.csr_array],
    operands: Callable[[], Sequence[NDArray[Any]]],
) -> Callable[[], Step] | None:
    return None if function is None else lambda: dense_step(function, matrix(), operands())


def torch_csr(torch: Any, matrix: sp.csr_array, index: type[np.signedinteger[Any]]) -> Any:
    """The matrix as a tensor of torch, with index arrays of that dtype."""
    arrays = (matrix.indptr.astype(index), matrix.indices.astype(index), matrix.data.copy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch warns that sparse CSR is in beta
        return torch.sparse_csr_tensor(*map(torch.from_numpy, arrays), size=matrix.shape)


def _torch(
    function: Callable[..., Any] | None,
    matrix: Callable[[], sp.csr_array],
    operands: Callable[[], Sequence[NDArray[Any]]],
    index: type[np.signedinteger[Any]],
) -> Callable[[], Step] | None:
    if function is None:
        return None

    def factory() -> Step:
        torch = import_torch()
        tensor = torch_csr(torch, matrix(), index)
        rest = [torch.from_numpy(operand.copy()) for operand in operands()]
        return lambda: function(torch, tensor, *rest)

    return factory
