"""From an einsum's operands to one bind of the primitive: sizes, dtypes, and whether and where the result is stored.

All of it follows from the operands' signatures, so it is done once for each of them and remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.algebra.assembly import NEW, Assembly, assembled, future_place
from jsparse.algebra.path import Step, steps_of
from jsparse.algebra.product import Product, checked_sizes
from jsparse.algebra.resort import resorted
from jsparse.algebra.rules import NEW_PATTERN, NewPattern, Stored, result_of
from jsparse.algebra.signature import Signature, StoredOn, is_relation, signature, stored_on
from jsparse.dynamic import DynamicPattern
from jsparse.errors import DTypeError, FormatError, PatternError, ShapeError
from jsparse.formats import DynamicType, Format, Pattern
from jsparse.notation import Assignment, parse_einsum
from jsparse.primitives.entries import Entries
from jsparse.primitives.spec import Spec
from jsparse.tensor import SparseTensor

__all__ = [
    "SUPPORTED_DTYPES",
    "Asked",
    "Contraction",
    "OutFormat",
    "as_array",
    "asked",
    "asked_place",
    "clear_cache",
    "contracted",
    "contraction",
    "dense_array",
    "fused",
    "result_dtype",
    "result_place",
    "stated",
]

SUPPORTED_DTYPES = ("float32", "float64", "int32", "int64")
REMEMBERED = 256  # statements; each holds its patterns

OutFormat: TypeAlias = str | Format | SparseTensor | None
Asked: TypeAlias = str | Format | StoredOn | NewPattern | None  # the same, of which only types count


@dataclass(frozen=True, slots=True)
class Contraction:
    """A product that is checked.

    Attributes:
        shape: of the result.
        dtype: of the result, to which all operands are converted.
        alone: for each operand the einsum that sums what only it carries, None if there is nothing to do.
        spec: what the primitive computes; None if no level is left to walk and dense arrays do.
        result: the pattern of a sparse result, None for a dense one.
        index_from: for each dynamic pattern that is walked, the operand (-1: the result) that lies on it.
        assembly: how the pattern of the result is found, if it has one of its own.
        entries: how pattern and values are found together, if they are.
        steps: products that are computed before, one after the other; then `spec` says nothing, and `place` where the
            result is stored.
        resorted: operands that are converted before, to other formats; then likewise.
    """

    subscripts: str
    assignment: Assignment
    shape: tuple[int, ...]
    dtype: np.dtype
    alone: tuple[str | None, ...]
    spec: Spec | None
    result: Pattern | DynamicType | None
    index_from: tuple[int, ...] = ()
    assembly: Assembly | None = None
    entries: Entries | None = None
    steps: tuple[Step, ...] = ()
    resorted: tuple[tuple[int, Format], ...] = ()
    place: Stored | Format = None

    def arrays(self, operands: Sequence[Any]) -> list[Any]:
        """The operands that have values as the primitive (or the dense einsum) takes them."""
        return [self._array(x, n) for n, x in enumerate(operands) if not is_relation(x)]

    def walked(self, operands: Sequence[Any], result: DynamicPattern | None) -> list[DynamicPattern]:
        """The dynamic patterns that are walked; `result` is the one on which the result lies."""
        patterns = [result if n < 0 else operands[n].pattern for n in self.index_from]
        return [pattern for pattern in patterns if pattern is not None]

    def stored_like(self, walked: Sequence[DynamicPattern]) -> DynamicPattern | None:
        """Which of them a dynamic result lies on."""
        if self.spec is None or self.spec.result.on is None:
            return None
        dynamic = [n for n, walk in enumerate(self.spec.walks) if not isinstance(walk.pattern, Pattern)]
        return walked[dynamic.index(self.spec.result.on)] if self.spec.result.on in dynamic else None

    def _array(self, x: Any, place: int) -> Any:
        if isinstance(x, SparseTensor) and not x.format.is_dense:
            array = x.values
        else:
            array = dense_array(x)
        if array.dtype != self.dtype:
            array = array.astype(self.dtype)
        text = self.alone[place]
        return array if text is None else jnp.einsum(text, array)


def contraction(
    subscripts: str, operands: Sequence[Any], out_format: OutFormat, nse: int | None = None
) -> tuple[Contraction, list[Any]]:
    """Check an einsum and state it for the primitive; an operand is sparse, or a sparse result is asked for.

    Returns the statement and the operands, all of them SparseTensors or jax arrays.

    Raises:
        SubscriptError, ShapeError, DTypeError: the operands do not fit the subscripts, or each other.
        PatternError: there is no room for a sparse result, or nothing says how much there has to be.
    """
    taken = [x if isinstance(x, SparseTensor) else as_array(x, subscripts) for x in operands]
    signatures, out = asked(subscripts, taken, out_format)
    return _stated(subscripts, signatures, out, nse), taken


def asked(text: str, operands: Sequence[Any], out_format: OutFormat) -> tuple[tuple[Signature, ...], Asked]:
    """The signatures of operands, and `out_format` likewise. Raises FormatError if it is no format."""
    stored = stored_on([*operands, out_format])
    out: Asked = stored.pop() if isinstance(out_format, SparseTensor) else out_format
    if not isinstance(out, str | Format | StoredOn | None):
        raise FormatError(
            f"Expected out_format of '{text}' to be 'dense', a format, a SparseTensor or None, but got "
            f"{type(out).__name__}."
        )
    return tuple(signature(x, on) for x, on in zip(operands, stored, strict=False)), out


def dense_array(x: Any) -> Any:
    """An array; a SparseTensor whose levels are all dense is one in another order."""
    if not isinstance(x, SparseTensor):
        return x
    order = x.format.order
    stored = x.values.reshape([x.shape[d] for d in order])
    return jnp.transpose(stored, [order.index(d) for d in range(x.ndim)]) if x.ndim else stored.reshape(())


def as_array(x: Any, subscripts: str) -> jax.Array:
    """An operand that is no SparseTensor as an array of numbers. Raises DTypeError if it is none."""
    try:
        if type(x).__module__.startswith("jax.experimental.sparse"):
            raise TypeError("jax would slice it row by row")
        array = x if isinstance(x, jax.Array) else jnp.asarray(x)
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"Expected the operands of '{subscripts}' to be arrays or SparseTensors, but one is a {type(x).__module__}."
            f"{type(x).__name__}. Sparse arrays of other libraries are taken by jsparse.asarray."
        ) from error
    if not isinstance(array.dtype, np.dtype):  # random keys
        raise DTypeError(f"Expected the operands of '{subscripts}' to be numbers, but one has dtype {array.dtype}.")
    return array


def clear_cache() -> None:
    """Forget all statements."""
    _stated.cache_clear()
    stated.cache_clear()


@lru_cache(maxsize=REMEMBERED)
def _stated(subscripts: str, operands: tuple[Signature, ...], out: Asked, nse: int | None) -> Contraction:
    return stated(subscripts, parse_einsum(subscripts, [x.shape for x in operands]), operands, out, nse)


@lru_cache(maxsize=REMEMBERED)
def stated(
    text: str,
    assignment: Assignment,
    operands: tuple[Signature, ...],
    out: Asked,
    nse: int | None,
) -> Contraction:
    """An assignment for operands of these signatures."""
    places = [(access, x.shape) for access, x in zip(assignment.factors, operands, strict=True)]
    target = (assignment.target, out.pattern.shape) if isinstance(out, StoredOn) else None
    product = Product(assignment, operands, checked_sizes(text, places, target))
    dtype = result_dtype(text, operands)
    place = asked_place(text, [product], out, nse)
    steps = steps_of(product, place is NEW_PATTERN or isinstance(place, Format))
    if steps:
        return Contraction(text, assignment, product.shape, dtype, (), None, None, steps=steps, place=place)
    future = future_place(text, [product], place, nse)
    moved = resorted(product, future)
    if moved:
        if future is not None and future.group == NEW:
            place = future.pattern.format
        return Contraction(text, assignment, product.shape, dtype, (), None, None, resorted=moved, place=place)
    on, assembly = result_place(text, [product], [range(len(operands))], place, nse)
    work = contracted(text, product, dtype, on)
    return replace(work, assembly=assembly, entries=fused(assembly, [(1, work)]))


def result_dtype(text: str, operands: Sequence[Signature], *numbers: complex) -> np.dtype:
    """What operands and numbers promote to. Raises DTypeError if that is not supported."""
    dtype = jnp.result_type(*(x.promoting for x in operands if not x.is_relation), *numbers)
    if dtype.name not in SUPPORTED_DTYPES:
        came = ", ".join(x.dtype.name for x in operands if not x.is_relation)
        raise DTypeError(
            f"Expected the operands of '{text}' to promote to {' or '.join(SUPPORTED_DTYPES)}, but {came} "
            f"promote to {dtype}. Convert them with .astype."
        )
    return np.dtype(dtype)


def asked_place(text: str, products: Sequence[Product], out: Asked, nse: int | None) -> Stored | Format:
    """Where a sum of products is stored: on a pattern, a new one (in a format, if one is asked for), or nowhere.

    Raises FormatError for `out`, ShapeError for `nse`, PatternError if an operand's pattern is larger than `nse`.
    """
    if nse is not None and (isinstance(nse, bool) or not isinstance(nse, int | np.integer) or nse < 0):
        raise ShapeError(f"Expected nse= of '{text}' to be a number of entries, but got {nse!r}.")
    if isinstance(out, StoredOn):
        return out
    if out is NEW_PATTERN:
        return NEW_PATTERN
    format = None if out is None else Format.of(out, len(products[0].kept))
    if format is not None and format.is_dense:
        return None
    found = result_of(products)
    if format is not None and (not isinstance(found, StoredOn) or found.pattern.format != format):
        return format
    if nse is not None and isinstance(found, StoredOn) and found.pattern.nse > nse:
        raise PatternError(
            f"Expected at most nse={nse:,} entries in the result of '{text}', but it has the {found.pattern.nse:,} "
            f"of an operand."
        )
    return found


def result_place(
    text: str, products: Sequence[Product], places: Sequence[Sequence[int]], asked: Stored | Format, nse: int | None
) -> tuple[StoredOn | None, Assembly | None]:
    """What the result is stored on, None if it is dense; and how that is found, if it is a pattern of its own.

    Raises PatternError as `algebra.assembly.assembled` does.
    """
    if isinstance(asked, StoredOn) or asked is None:
        return asked, None
    return assembled(text, products, places, asked if isinstance(asked, Format) else None, nse)


def fused(assembly: Assembly | None, terms: Sequence[tuple[complex, Contraction]]) -> Entries | None:
    """How a sum is computed where its pattern is found, None if that is better done apart."""
    specs = tuple(work.spec for _, work in terms if work.spec is not None)
    known = assembly is not None and len(assembly.reached.terms) == len(specs) == len(terms)
    if assembly is None or not known or any(isinstance(c, complex) for c, _ in terms):
        return None
    entries = Entries(assembly.reached, tuple(float(c.real) for c, _ in terms), specs, assembly.result)
    return entries if entries.is_fused else None


def contracted(text: str, product: Product, dtype: np.dtype, on: StoredOn | None) -> Contraction:
    """A product whose result is stored on `on`, or dense."""
    spec = product.spec(on)
    alone = tuple(product.alone(n)[1] if spec else None for n in range(len(product.operands)))
    result = None if on is None else on.pattern
    sources = _index_from(product, spec, on)
    return Contraction(text, product.assignment, product.shape, dtype, alone, spec, result, sources)


def _index_from(product: Product, spec: Spec | None, on: StoredOn | None) -> tuple[int, ...]:
    """Whose index arrays each dynamic pattern's are (-1: the result's); of several, one that brings the most."""
    if spec is None:
        return ()
    lying = [(n, product.key_of(n), x.core) for n, x in enumerate(product.operands) if x.core is not None]
    if on is not None and on.core is not None:
        lying.append((-1, list(product.walked(on))[spec.result.on or 0], on.core))
    return tuple(
        next(n for n, lies, core in lying if lies == key and core is not None and core.derived == walk.derived)
        for key, walk in product.walked(on).items()
        if not isinstance(walk.pattern, Pattern)
    )
