"""From an einsum's operands to one bind of the primitive: sizes, dtypes, and whether and where the result is stored.

All of it follows from the operands' signatures, so it is done once for each of them and remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from jsparse.base.limits import check_bytes
from jsparse.base.memo import remembered
from jsparse.compiler.dtypes import is_complex, part
from jsparse.compiler.semiring import PLUS_TIMES, Semiring
from jsparse.errors import shortened
from jsparse.formats import DynamicType, Format, Pattern
from jsparse.notation import Assignment, parse_einsum
from jsparse.planning.concordize import resorted
from jsparse.planning.contraction_path import Step, steps_of
from jsparse.planning.dense_semiring import dense_product
from jsparse.planning.dtypes import Dtypes, converted, dtypes_of
from jsparse.planning.index_relation import is_index_relation
from jsparse.planning.operands import as_operand, asked
from jsparse.planning.output.pattern import Assembly, future_place, new_format
from jsparse.planning.output.resolve import asked_place, result_place
from jsparse.planning.output.rules import Stored
from jsparse.planning.request import NEW_PATTERN, OutFormat, OutputRequest
from jsparse.planning.semiring_dtype import check_meaning
from jsparse.planning.signature import Signature, StoredOn
from jsparse.planning.typed_product import Product, checked_sizes
from jsparse.primitives.entries_spec import Entries
from jsparse.primitives.spec import Spec
from jsparse.tensor.dense import dense_array
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import SparseTensor

__all__ = ["REMEMBERED", "Contraction", "contracted", "contraction", "fused", "stated"]

REMEMBERED = 256  # statements; each holds its patterns

_SMALLER = "Pass out_format= for a result that stores less (of einsum and evaluate), or sum over more indices."


@dataclass(frozen=True, slots=True)
class Contraction:
    """A product that is checked.

    Attributes:
        shape: of the result.
        dtypes: of operands, of what is computed, and of the result.
        taken: the dtype of each operand as the primitive takes it, before it is summed alone; None of a relation.
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
    dtypes: Dtypes
    taken: tuple[np.dtype | None, ...]
    alone: tuple[str | None, ...]
    spec: Spec | None
    result: Pattern | DynamicType | None
    index_from: tuple[int, ...] = ()
    assembly: Assembly | None = None
    entries: Entries | None = None
    steps: tuple[Step, ...] = ()
    resorted: tuple[tuple[int, Format], ...] = ()
    place: Stored | Format = None
    semiring: Semiring = PLUS_TIMES

    @property
    def dtype(self) -> np.dtype:
        """The result's."""
        return self.dtypes.result

    @property
    def is_prepared(self) -> bool:
        """Whether operands are converted, or multiplied in steps, before a last product is stated."""
        return bool(self.steps or self.resorted)

    @property
    def factor_dtypes(self) -> tuple[np.dtype, ...]:
        """Of the primitive's factors."""
        pairs = ((dtype, text) for dtype, text in zip(self.taken, self.alone, strict=True) if dtype is not None)
        return tuple(dtype if text is None else self.dtypes.summed(dtype) for dtype, text in pairs)

    @property
    def kernel_dtypes(self) -> tuple[str, ...]:
        """Of the result and of the factors of a kernel, which for complex numbers computes with their parts."""
        return tuple(part(dtype.name) for dtype in (self.dtypes.computed, *self.factor_dtypes))

    def arrays(self, operands: Sequence[Any]) -> list[Any]:
        """The operands that have values as the primitive (or the dense einsum) takes them."""
        return [self._array(x, n) for n, x in enumerate(operands) if not is_index_relation(x)]

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
        dtype, text = self.taken[place], self.alone[place]
        assert dtype is not None
        array = converted(array, dtype)
        if text is None:
            return array
        array = converted(array, self.dtypes.summed(dtype))
        if self.semiring.is_linear:
            return jnp.einsum(text, array)
        before, _, after = text.partition("->")
        sizes = dict(zip(before, array.shape, strict=True))
        return dense_product(self.semiring, [tuple(before)], tuple(after), [array], sizes)


def contraction(
    subscripts: str,
    operands: Sequence[Any],
    out_format: OutFormat,
    nse: int | None = None,
    preferred: np.dtype | None = None,
    semiring: Semiring = PLUS_TIMES,
) -> tuple[Contraction, list[Any]]:
    """Check an einsum and state it for the primitive; an operand is sparse, or a sparse result is asked for.

    `preferred` is the dtype of the result, by default what the operands promote to. Returns the statement and the
    operands, all of them SparseTensors or jax arrays.

    Raises:
        SubscriptError, ShapeError, DTypeError: the operands do not fit the subscripts, or each other.
        PatternError: there is no room for a sparse result, or nothing says how much there has to be.
    """
    taken = [
        as_operand(x, partial("operand {} of '{}'".format, n, subscripts), subscripts) for n, x in enumerate(operands)
    ]
    signatures, out = asked(subscripts, taken, out_format)
    return _stated(subscripts, signatures, out, nse, preferred, semiring), taken


@remembered(maxsize=REMEMBERED)
def _stated(
    subscripts: str,
    operands: tuple[Signature, ...],
    out: OutputRequest,
    nse: int | None,
    preferred: np.dtype | None,
    semiring: Semiring,
) -> Contraction:
    assignment = parse_einsum(subscripts, [x.shape for x in operands])
    return stated(shortened(subscripts), assignment, operands, out, nse, preferred, semiring)


@remembered(maxsize=REMEMBERED)
def stated(
    text: str,
    assignment: Assignment,
    operands: tuple[Signature, ...],
    out: OutputRequest,
    nse: int | None,
    preferred: np.dtype | None,
    semiring: Semiring = PLUS_TIMES,
) -> Contraction:
    """An assignment for operands of these signatures, with a result of the `preferred` dtype, if any."""
    places = [(access, x.shape) for access, x in zip(assignment.factors, operands, strict=True)]
    target = (assignment.target, out.pattern.shape) if isinstance(out, StoredOn) else None
    product = Product(assignment, operands, checked_sizes(text, places, target), semiring)
    dtypes = dtypes_of(text, operands, preferred=preferred)
    check_meaning(text, semiring, dtypes.promoted)
    place = asked_place(text, [product], out, nse)
    steps = steps_of(product, place is NEW_PATTERN or isinstance(place, Format))
    later = Contraction(text, assignment, product.shape, dtypes, (), (), None, None, place=place, semiring=semiring)
    if steps:
        return replace(later, steps=steps)
    future = future_place(text, [product], place, nse)
    moved = resorted(product, future)
    if moved:
        return replace(later, resorted=moved, place=new_format(future) or place)
    on, assembly = result_place(text, [product], [range(len(operands))], place, nse)
    work = contracted(text, product, dtypes, on)
    return replace(work, assembly=assembly, entries=fused(assembly, [(1, work)]))


def fused(assembly: Assembly | None, terms: Sequence[tuple[complex, Contraction]]) -> Entries | None:
    """How a sum is computed where its pattern is found, None if that is better done apart."""
    specs = tuple(work.spec for _, work in terms if work.spec is not None)
    known = assembly is not None and len(assembly.reached.terms) == len(specs) == len(terms)
    if assembly is None or not known or any(is_complex(work.dtypes.computed) for _, work in terms):
        return None
    entries = Entries(assembly.reached, tuple(float(c.real) for c, _ in terms), specs, assembly.result)
    return entries if entries.is_fused else None


def contracted(text: str, product: Product, dtypes: Dtypes, on: StoredOn | None) -> Contraction:
    """A product whose result is stored on `on`, or dense. Raises ShapeError if no memory holds it."""
    shape = product.shape if on is None else (on.pattern.nse,)
    check_bytes(shape, dtypes.result, f"the result of '{text}'", _SMALLER)
    spec = product.spec(on)
    alone = tuple(product.alone(n)[1] if spec else None for n in range(len(product.operands)))
    taken = tuple(
        None if x.is_relation else dtypes.taken(x.dtype) if spec else dtypes.promoted for x in product.operands
    )
    result = None if on is None else on.pattern
    sources = _index_from(product, spec, on)
    given = (text, product.assignment, product.shape, dtypes, taken, alone, spec, result, sources)
    work = Contraction(*given, semiring=product.semiring)
    return work if spec is None else replace(work, spec=spec.with_dtype(dtypes.computed, work.factor_dtypes))


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
