"""From an einsum's operands to one bind of the primitive: sizes, dtypes, and whether and where the result is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.errors import DTypeError, NotYetSupportedError, ShapeError
from jsparse.formats import Format, Pattern
from jsparse.formats.pattern import core_of
from jsparse.notation import Access, Assignment, IndexVar, parse_einsum
from jsparse.primitives.einsum import Spec, Term
from jsparse.tensor import SparseTensor

__all__ = ["Contraction", "contraction"]

SUPPORTED_DTYPES = ("float32", "float64", "int32", "int64")


@dataclass(frozen=True)
class Contraction:
    """An einsum that is checked.

    Attributes:
        spec: what the primitive computes from `arrays`; None if no pattern is left and dense arrays do.
        result: the pattern of a sparse result, None for a dense one.
    """

    subscripts: str
    assignment: Assignment
    spec: Spec | None
    arrays: tuple[Any, ...]
    result: Pattern | None


def contraction(subscripts: str, operands: Sequence[Any], out_format: Any) -> Contraction:
    """Check an einsum and state it for the primitive; an operand is sparse, or `out_format` is a SparseTensor.

    Raises:
        SubscriptError, ShapeError, DTypeError: the operands do not fit the subscripts, or each other.
        NotYetSupportedError: patterns would have to be merged, or a new pattern assembled.
    """
    return _Statement(subscripts, operands, out_format).contraction()


class _Statement:
    def __init__(self, subscripts: str, operands: Sequence[Any], out_format: Any) -> None:
        self.text, self.out_format = subscripts, out_format
        self.operands = [x if isinstance(x, SparseTensor) else _array(x, subscripts) for x in operands]
        self.assignment = parse_einsum(subscripts, [x.ndim for x in self.operands])
        self.kept: tuple[IndexVar, ...] = self.assignment.target.variables()
        self.sizes = self._sizes()
        self.dtype = self._dtype()

    def contraction(self) -> Contraction:
        result = self._result_pattern()
        cored = [(n, core_of(x.pattern)) for n, x in self._sparse() if not x.format.is_dense]
        walks = {(core, self._walk(n, core)) for n, core in cored}
        if result is not None and not result.format.is_dense:
            walks.add((core_of(result), _levels(self.kept, result)[: core_of(result).ndim]))
        if len(walks) > 1:
            raise NotYetSupportedError(
                f"'{self.text}' has sparse tensors on different patterns, which einsum does not merge yet. Make all "
                f"but one of them dense with .todense()."
            )
        if not walks:
            return Contraction(self.text, self.assignment, None, tuple(self._dense_arrays()), result)
        ((core, walk),) = walks
        return self._on_pattern(core, walk, result)

    def _sparse(self) -> list[tuple[int, SparseTensor]]:
        return [(n, x) for n, x in enumerate(self.operands) if isinstance(x, SparseTensor)]

    def _walk(self, place: int, core: Pattern) -> tuple[IndexVar, ...]:
        tensor = dict(self._sparse())[place]
        return _levels(self._indices(place), tensor.pattern)[: core.ndim]

    def _indices(self, place: int) -> tuple[IndexVar, ...]:
        return tuple(str(v) for v in self.assignment.factors[place].indices)

    def _sizes(self) -> dict[IndexVar, int]:
        """The size of each index, the same wherever it stands."""
        found: dict[IndexVar, tuple[int, str]] = {}
        places = list(zip(self.assignment.factors, self.operands, strict=True))
        if isinstance(self.out_format, SparseTensor):
            self._check_result_rank(self.out_format)
            places.append((self.assignment.target, self.out_format))
        for access, operand in places:
            for dim, (var, size) in enumerate(zip(access.indices, operand.shape, strict=True)):
                here = f"{size} in dimension {dim} of {_role(access, self.assignment)} of shape {tuple(operand.shape)}"
                known = found.setdefault(str(var), (int(size), here))
                if known[0] != size:
                    raise ShapeError(
                        f"Expected index '{var}' of '{self.text}' to have one size, but it is {known[1]} and {here}."
                    )
        return {var: size for var, (size, _) in found.items()}

    def _check_result_rank(self, pattern: SparseTensor) -> None:
        if pattern.ndim != len(self.kept):
            raise ShapeError(
                f"Expected out_format of '{self.text}' to have rank {len(self.kept)}, an index of the result each "
                f"dimension, but it has shape {pattern.shape}."
            )

    def _dtype(self) -> Any:
        dtype = jnp.result_type(*(x.values if isinstance(x, SparseTensor) else x for x in self.operands))
        if dtype.name not in SUPPORTED_DTYPES:
            came = ", ".join(str(x.dtype) for x in self.operands)
            raise DTypeError(
                f"Expected the operands of '{self.text}' to promote to {' or '.join(SUPPORTED_DTYPES)}, but {came} "
                f"promote to {dtype}. Convert them with .astype."
            )
        return dtype

    def _result_pattern(self) -> Pattern | None:
        """Where the result is stored, by the expression and by which operands are sparse, never by their values."""
        if isinstance(self.out_format, SparseTensor):
            return self.out_format.pattern
        if self.out_format == "dense" or (isinstance(self.out_format, Format) and self.out_format.is_dense):
            return None
        if self.out_format is not None:
            raise NotYetSupportedError(
                f"einsum does not assemble a result in format {self.out_format!s} yet, as '{self.text}' asks. Pass "
                f"out_format='dense', or a SparseTensor on whose pattern the result is computed."
            )
        for n, x in self._sparse():
            indices = self._indices(n)
            if set(indices) <= set(self.kept):
                if len(set(indices)) < len(indices):
                    raise self._unassembled(
                        f"the diagonal of operand {self.assignment.factors[n].tensor} has a new pattern"
                    )
                return self._extended(x.pattern, indices)
        carried = {v for n, _ in self._sparse() for v in self._indices(n)}
        if len(self.kept) >= 2 and set(self.kept) <= carried:
            raise self._unassembled("its result is sparse and has a new pattern")
        return None

    def _unassembled(self, why: str) -> NotYetSupportedError:
        return NotYetSupportedError(
            f"'{self.text}' is not supported yet: {why}, which einsum does not assemble yet. Pass out_format='dense', "
            f"or a SparseTensor on whose pattern the result is computed."
        )

    def _extended(self, pattern: Pattern, indices: tuple[IndexVar, ...]) -> Pattern:
        """The operand's levels, then dense levels for the indices of the result that it lacks."""
        added = [v for v in self.kept if v not in indices]
        extended = pattern.extended([self.sizes[v] for v in added])
        names = (*indices, *added)
        return extended.transposed([names.index(v) for v in self.kept])

    def _on_pattern(self, core: Pattern, walk: tuple[IndexVar, ...], result: Pattern | None) -> Contraction:
        terms: list[Term] = []
        arrays: list[Any] = []
        for n, x in enumerate(self.operands):
            if isinstance(x, SparseTensor) and not x.format.is_dense:
                terms.append(Term((), True, _levels(self._indices(n), x.pattern)[core.ndim :]))
                arrays.append(x.values.astype(self.dtype))
            else:
                dense, names = self._reduced_alone(n, self._as_array(x).astype(self.dtype))
                terms.append(Term(names))
                arrays.append(dense)
        if result is None or result.format.is_dense:
            target = Term(self.kept)
        else:
            target = Term((), True, _levels(self.kept, result)[core.ndim :])
        sizes = tuple((v, self.sizes[v]) for v in self.assignment.variables())
        return Contraction(
            self.text, self.assignment, Spec(tuple(terms), target, walk, core, sizes), tuple(arrays), result
        )

    def _as_array(self, x: Any) -> Any:
        """A dense array; a SparseTensor whose levels are all dense is one in another order."""
        if not isinstance(x, SparseTensor):
            return x
        stored = x.values.reshape([x.shape[d] for d in x.format.order])
        return jnp.transpose(stored, _inverse(x.format.order)) if x.ndim else stored

    def _dense_arrays(self) -> list[Any]:
        return [self._as_array(x).astype(self.dtype) for x in self.operands]

    def _reduced_alone(self, place: int, x: Any) -> tuple[Any, tuple[IndexVar, ...]]:
        """Sum what only this operand carries, and take diagonals, before the product: Σ a·b = a·Σ b."""
        names = self._indices(place)
        others = {v for n in range(len(self.operands)) if n != place for v in self._indices(n)} | set(self.kept)
        left = tuple(v for v in dict.fromkeys(names) if v in others)
        return (x, names) if left == names else (jnp.einsum(f"{''.join(names)}->{''.join(left)}", x), left)


def _array(x: Any, subscripts: str) -> jax.Array:
    try:
        return jnp.asarray(x)
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"Expected the operands of '{subscripts}' to be arrays or SparseTensors, but one is a {type(x).__module__}."
            f"{type(x).__name__}. Sparse arrays of other libraries are taken by jsparse.asarray."
        ) from error


def _role(access: Access, assignment: Assignment) -> str:
    return "out_format" if access is assignment.target else f"operand {access.tensor}"


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(n) for n in np.argsort(order))


def _levels(indices: Sequence[IndexVar], pattern: Pattern) -> tuple[IndexVar, ...]:
    """The index of each level of the pattern of a tensor accessed by `indices`."""
    return tuple(indices[level.dim] for level in pattern.format.levels)
