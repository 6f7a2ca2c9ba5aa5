"""Indirect accesses become index relations: patterns without values.

`rows[p]` relates p to the index that it reads. It is a sparse matrix R(p, i) of ones with one entry in every row: dense
in p, with a singleton level below, and without stored values. So

    C[rows[p], n] += V[p] * B[cols[p], n]        is        C[i, n] = Σ R(p, i) · S(p, j) · V[p] · B[j, n]

and the rules of patterns apply. An index out of range has no stored entry and contributes nothing. Where the table is
known, loops may walk a scatter by its transposed index, as a gather. Derivatives and batches are einsums over the same
patterns. Indirect einsums are the language of Insum (Won et al., 2026).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import is_integer
from jsparse.base.limits import check_constant
from jsparse.errors import DTypeError, ShapeError, shortened
from jsparse.formats import DynamicType, Format, Level, Pattern
from jsparse.formats.build import index_dtype
from jsparse.formats.levels import COMPRESSED, DENSE, SINGLETON
from jsparse.notation import Access, IndexVar
from jsparse.notation.assignment import Index
from jsparse.notation.statement import Statement
from jsparse.planning.bare_pattern import is_sparse
from jsparse.planning.index_relation import IndexRelation
from jsparse.tensor.dynamic_pattern import DynamicPattern, check_width

__all__ = ["DesugaredStatement", "desugared", "relation", "traced_relation"]


@dataclass(frozen=True, eq=False)
class DesugaredStatement:
    """An equivalent statement without indirect accesses.

    Attributes:
        relations: the index relations that replace indirect accesses, by their names in the statement.
        of_target: the accesses to the relations that address the target.
    """

    statement: Statement
    relations: Mapping[str, IndexRelation]
    of_target: tuple[Access, ...]


def desugared(
    text: str, statement: Statement, tensors: Mapping[str, Any], shape: Sequence[int] | None
) -> DesugaredStatement:
    """Replace indirect accesses by index relations. `shape` is the target's; only an indirect target needs it.

    Raises DTypeError if an index table is sparse or holds no integers, ShapeError if ranks do not agree,
    NotYetSupportedError for symbolic shapes.
    """
    found = _Relations(text, tensors)
    target, of_target = found.replaced(statement.target, shape, distinct=True)
    terms = []
    for term in statement.terms:
        factors, needed = [], list(of_target)
        for factor in term.factors:
            access, more = found.replaced(factor, _shape(tensors[factor.tensor]) if factor.nested() else None)
            factors.append(access)
            needed += more
        terms.append(replace(term, factors=(*factors, *dict.fromkeys(needed))))
    return DesugaredStatement(replace(statement, target=target, terms=tuple(terms)), found.made, tuple(of_target))


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


class _Relations:
    """Makes one relation for each pair of an indirect access and the size of the dimension that it indexes."""

    def __init__(self, text: str, tensors: Mapping[str, Any]) -> None:
        self.text, self.tensors = text, tensors
        self.made: dict[str, IndexRelation] = {}
        self.sizes: dict[IndexVar, int] = {}
        for name, x in tensors.items():
            check_constant(_shape(x), f"tensor {name} of '{text}'")

    def replaced(
        self, access: Access, shape: Sequence[int] | None, distinct: bool = False
    ) -> tuple[Access, list[Access]]:
        """An access with index variables only, and the accesses to the relations that determine those variables.

        Args:
            shape: the accessed tensor's.
            distinct: every index variable occurs once, as a target requires, even where two indices read one table.
        """
        if shape is not None and len(shape) != len(access.indices):
            raise ShapeError(
                f"Expected tensor {access.tensor} of '{self.text}' to have rank {len(access.indices)}, as "
                f"{shortened(access)} says, but it has shape {tuple(shape)}."
            )
        indices: list[Index] = []
        needed: list[Access] = []
        for dim, index in enumerate(access.indices):
            if isinstance(index, Access):
                assert shape is not None
                index, more = self.related(index, int(shape[dim]), indices if distinct else ())
                needed += more
            indices.append(index)
        return Access(access.tensor, tuple(indices)), needed

    def related(self, access: Access, size: int, taken: Sequence[Index]) -> tuple[IndexVar, list[Access]]:
        """The index variable that stands for `access` in a dimension of `size`, and the accesses to its relations.

        The variable is none of `taken`.
        """
        array = self.array(access)
        inner, needed = self.replaced(access, array.shape)
        var = str(access)
        while var in taken or self.sizes.setdefault(var, size) != size:
            var += "'"
        names = tuple(map(str, inner.indices))
        if var not in self.made:
            self.made[var] = IndexRelation(relation(_diagonal(array, names), size))
        return var, [*needed, Access(var, (*dict.fromkeys(names), var))]

    def array(self, access: Access) -> Any:
        """The index table of an access, as a numpy array unless it is traced."""
        x = self.tensors[access.tensor]
        if is_sparse(x) or np.ndim(x) == 0:
            raise DTypeError(
                f"Expected an array of integers to index by in '{self.text}', but {access.tensor} is a "
                f"{type(x).__name__ if is_sparse(x) else 'number'}. Pass a dense array."
            )
        array = x if isinstance(x, jax.core.Tracer) else np.asarray(x)
        if not is_integer(array.dtype):
            raise DTypeError(
                f"Expected an array of integers to index by in '{self.text}', but {access.tensor} has dtype "
                f"{array.dtype}." + (" Index by jnp.nonzero of a mask." if array.dtype == np.bool_ else "")
            )
        return array


def _diagonal(array: Any, names: tuple[IndexVar, ...]) -> Any:
    """The array with one axis for each distinct name: repeated names take a diagonal."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) == len(names):
        return array
    einsum = jnp.einsum if isinstance(array, jax.core.Tracer) else np.einsum
    return einsum(array, [distinct.index(v) for v in names], list(range(len(distinct))))


def relation(array: Any, size: int) -> Pattern | DynamicPattern:
    """The pattern of shape (*array.shape, size) with an entry at (p, array[p]) wherever that is in range.

    Known integers give a static pattern, traced ones a dynamic one.
    """
    if isinstance(array, jax.core.Tracer):
        return traced_relation(array, size)
    shape = (*array.shape, size)
    known = array.reshape(-1)
    inside = (known >= 0) & (known < size)
    dtype = index_dtype(shape, [known.size])
    if inside.all():
        return Pattern._trusted(shape, _format(array.ndim, False), (known.astype(dtype),))
    pointers = np.concatenate([[0], np.cumsum(inside)]).astype(dtype)
    return Pattern._trusted(shape, _format(array.ndim, True), (pointers, known[inside].astype(dtype)))


def traced_relation(array: Any, size: int, lead: int = 0) -> DynamicPattern:
    """The dynamic pattern of a traced table. The first `lead` axes of `array` are batch axes."""
    inner = array.shape[lead:]
    type_ = DynamicType((*inner, size), _format(len(inner), False), int(np.prod(inner)))
    check_width(type_.index_dtype, f"an array of shape {inner} that indexes a dimension of size {size:,}")
    inside = (array >= 0) & (array < size) if size <= jnp.iinfo(array.dtype).max else array >= 0
    coordinates = jnp.where(inside, array, -1).astype(type_.index_dtype)
    return DynamicPattern(type_, (coordinates.reshape(*array.shape[:lead], -1),))


def _format(ndim: int, gaps: bool) -> Format:
    """A relation's format: dense in the table's dimensions, then one entry (with `gaps`, at most one) below each."""
    kinds = [DENSE] * ndim + [COMPRESSED if gaps else SINGLETON]
    return Format(tuple(Level(kind, dim) for dim, kind in enumerate(kinds)))
