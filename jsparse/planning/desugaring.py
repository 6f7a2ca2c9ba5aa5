"""Desugaring: statements with indirect accesses, minima or assignments become sums of products.

Indirect accesses become index relations: patterns without values. `rows[p]` relates p to the index i = rows[p]. The
relation is a sparse matrix R(p, i) of ones, without stored values. It is dense in p, with a singleton level below that
has one entry in every row. If a known index is out of range, a compressed level takes the place of the singleton level.
So

    C[rows[p], n] += V[p] * B[cols[p], n]        is        C[i, n] = Σ R(p, i) · S(p, j) · V[p] · B[j, n]

and the rules of patterns apply. An index out of range has no stored entry and contributes nothing. If the table is
known, loops may walk a scatter as a gather, by the relation's transposed index. Derivatives and batches are einsums
over the same patterns. Indirect einsums are the language of Insum (Won et al., 2026). An assignment through indirect
accesses may write an element of the target more than once: known tables are checked for this. It may also never write
an element: such elements are found by counting the writes.

With `min=` or `max=`, each element of the target keeps the smallest or the largest sum that is written to it. A sum of
terms is a product of the semiring whose multiplication is addition (Kepner and Gilbert, 2011), so

    D[i] min= L[p] + d[j]        is        D[i] = ⊕ L[p] ⊗ d[j]     by min and +.

A single term is a product by the semiring of min (or max) and ·. Numbers are ordinary factors. Bare patterns only
restrict the points at which a term is defined: a term of bare patterns alone is the number 1 at their entries. If there
are several terms, each term with several factors is computed first, as a tensor over all of its index variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import is_integer
from jsparse.base.dataclass import dataclass
from jsparse.base.limits import check_constant
from jsparse.base.memo import memoize
from jsparse.compiler.semiring import Add, Semiring
from jsparse.errors import DTypeError, PatternError, ShapeError, shorten
from jsparse.formats import Format, Level, Pattern, PatternType
from jsparse.formats.build import index_dtype
from jsparse.formats.levels import COMPRESSED, DENSE, SINGLETON
from jsparse.notation import Access, IndexVar
from jsparse.notation.assignment import Index
from jsparse.notation.statement import Product, Statement
from jsparse.planning.signature import BarePattern, IndexRelation, is_sparse
from jsparse.tensor.dynamic_pattern import DynamicPattern, check_width

_Tables = tuple[tuple[tuple[IndexVar, ...], Pattern], ...]  # for each relation its index variables and its entries


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


def desugar_statement(
    text: str, statement: Statement, tensors: Mapping[str, Any], shape: Sequence[int] | None
) -> DesugaredStatement:
    """Replace indirect accesses by index relations. `shape` is the target's shape, which only an indirect target needs.

    Raises DTypeError if an index table is sparse or holds no integers, ShapeError if ranks do not agree,
    NotYetSupportedError for symbolic shapes.
    """
    tables = _Relations(text, tensors)
    target, of_target = tables.replace_indices(statement.target, shape, distinct=True)
    terms = []
    for term in statement.terms:
        factors, needed = [], list(of_target)
        for factor in term.factors:
            accessed = _shape(tensors[factor.tensor]) if factor.indirections() else None
            access, more = tables.replace_indices(factor, accessed)
            factors.append(access)
            needed += more
        terms.append(replace(term, factors=(*factors, *dict.fromkeys(needed))))
    return DesugaredStatement(replace(statement, target=target, terms=tuple(terms)), tables.relations, tuple(of_target))


def _shape(x: Any) -> tuple[int, ...]:
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


class _Relations:
    """Makes one relation for each pair of an indirect access and the size of the dimension that it indexes."""

    def __init__(self, text: str, tensors: Mapping[str, Any]) -> None:
        self.text, self.tensors = text, tensors
        self.relations: dict[str, IndexRelation] = {}
        self.sizes: dict[IndexVar, int] = {}
        for name, x in tensors.items():
            check_constant(_shape(x), f"tensor {name} of '{text}'")

    def replace_indices(
        self, access: Access, shape: Sequence[int] | None, distinct: bool = False
    ) -> tuple[Access, list[Access]]:
        """Replace indirect indices of an access. Returns the new access and the accesses to the added relations.

        Args:
            shape: the shape of the accessed tensor.
            distinct: whether every index variable has to occur once, as in a target, even if two indices are equal.
        """
        if shape is not None and len(shape) != len(access.indices):
            raise ShapeError(
                f"Expected tensor {access.tensor} of '{self.text}' to have rank {len(access.indices)}, as "
                f"{shorten(access)} says, but it has shape {tuple(shape)}."
            )
        indices: list[Index] = []
        needed: list[Access] = []
        for dim, index in enumerate(access.indices):
            if isinstance(index, Access):
                assert shape is not None
                index, more = self.replace_by_variable(index, int(shape[dim]), indices if distinct else ())
                needed += more
            indices.append(index)
        return Access(access.tensor, tuple(indices)), needed

    def replace_by_variable(self, access: Access, size: int, taken: Sequence[Index]) -> tuple[IndexVar, list[Access]]:
        """Replace `access` by an index variable of size `size`. Returns the variable and the accesses to its relations.

        The variable differs from all variables in `taken`.
        """
        array = self.array(access)
        inner, needed = self.replace_indices(access, array.shape)
        var = str(access)
        while var in taken or self.sizes.setdefault(var, size) != size:
            var += "'"
        names = tuple(map(str, inner.indices))
        if var not in self.relations:
            distinct = list(dict.fromkeys(names))
            if len(distinct) < len(names):  # axes with equal names become their diagonal
                einsum = jnp.einsum if isinstance(array, jax.core.Tracer) else np.einsum
                array = einsum(array, [distinct.index(v) for v in names], list(range(len(distinct))))
            self.relations[var] = IndexRelation(relation(array, size))
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
                f"{array.dtype}."
                + (" To select with a mask, index with jnp.nonzero(mask)." if array.dtype == np.bool_ else "")
            )
        return array


def relation(array: Any, size: int) -> Pattern | DynamicPattern:
    """The pattern of shape (*array.shape, size) with an entry at (p, array[p]) wherever array[p] is in range.

    Known integers give a static pattern, traced ones a dynamic one.
    """
    if isinstance(array, jax.core.Tracer):
        return dynamic_relation(array, size)
    shape = (*array.shape, size)
    known = array.reshape(-1)
    inside = (known >= 0) & (known < size)
    dtype = index_dtype(shape, [known.size])
    if inside.all():
        return Pattern._of_valid(shape, _format(array.ndim, False), (known.astype(dtype),))
    pointers = np.concatenate([[0], np.cumsum(inside)]).astype(dtype)
    return Pattern._of_valid(shape, _format(array.ndim, True), (pointers, known[inside].astype(dtype)))


def dynamic_relation(array: Any, size: int, lead: int = 0) -> DynamicPattern:
    """The dynamic pattern of a traced table. The first `lead` axes of `array` are batch axes."""
    inner = array.shape[lead:]
    type_ = PatternType((*inner, size), _format(len(inner), False), int(np.prod(inner)))
    check_width(type_.index_dtype, f"an array of shape {inner} that indexes a dimension of size {size:,}")
    inside = (array >= 0) & (array < size) if size <= jnp.iinfo(array.dtype).max else array >= 0
    coordinates = jnp.where(inside, array, -1).astype(type_.index_dtype)
    return DynamicPattern(type_, (coordinates.reshape(*array.shape[:lead], -1),))


def _format(ndim: int, gaps: bool) -> Format:
    """The format of a relation: dense levels for the table, then one entry (with `gaps`, at most one) in each row."""
    kinds = [DENSE] * ndim + [COMPRESSED if gaps else SINGLETON]
    return Format(tuple(Level(kind, dim) for dim, kind in enumerate(kinds)))


def check_distinct(text: str, stated: DesugaredStatement) -> None:
    """Check that no element of the target is written twice, as far as the index tables are known while tracing.

    Raises PatternError with the element's coordinates.
    """
    patterns = [(access, stated.relations[access.tensor].pattern) for access in stated.of_target]
    for group in _group_by_shared_variables([access for access, _ in patterns]):
        of_group = tuple((tuple(map(str, a.indices)), p) for a, p in patterns if a in group)
        known = tuple((names, p) for names, p in of_group if isinstance(p, Pattern))
        if len(known) < len(of_group):
            continue
        target = tuple(str(v) for v in stated.statement.target.indices)
        twice = _twice(known, target)
        if twice is not None:
            element = ", ".join(f"{v} = {n}" for v, n in twice)
            raise PatternError(
                f"Expected '{text}' to write each element of {stated.statement.target.tensor} once, as '=' asks, but "
                f"it writes the element at {element} more than once. Write += to add the values, or min= or max= to "
                f"keep one of them."
            )


def counting(stated: DesugaredStatement) -> tuple[Statement, tuple[int, ...]]:
    """Make the statement that counts the writes to each element of the target. Also return the dimensions left out.

    The count is constant along dimensions that no index table addresses, so the statement leaves out these dimensions.
    An index out of range, on either side of the statement, writes nothing and is not counted.
    """
    target = stated.statement.target
    related = [tuple(f for f in term.factors if f.tensor in stated.relations) for term in stated.statement.terms]
    led = {v for accesses in related for access in accesses for v in access.variables()}
    same = tuple(dim for dim, index in enumerate(target.indices) if index not in led)
    addressed = Access(target.tensor, tuple(index for index in target.indices if index in led))
    terms = tuple(Product(1, accesses) for accesses in dict.fromkeys(related))
    return replace(stated.statement, target=addressed, terms=terms), same


def _group_by_shared_variables(accesses: Sequence[Access]) -> list[list[Access]]:
    """Group the accesses so that no two groups share an index variable."""
    groups: list[list[Access]] = []
    for access in accesses:
        names = set(access.variables())
        meeting = [group for group in groups if any(names & set(other.variables()) for other in group)]
        groups = [group for group in groups if group not in meeting]
        groups.append([*(other for group in meeting for other in group), access])
    return groups


@memoize(maxsize=256)
def _twice(relations: _Tables, target: tuple[IndexVar, ...]) -> tuple[tuple[IndexVar, int], ...] | None:
    """Find the coordinates of an element that is written more than once; None if there is no such element."""
    read = _read(relations)
    kept = [v for v in target if v in read]
    columns = np.stack([column.reshape(-1) for column in np.broadcast_arrays(*(read[v] for v in kept))])
    columns = columns[:, (columns >= 0).all(axis=0)]
    ordered = columns[:, np.lexsort(columns[::-1])]
    same = np.nonzero((ordered[:, 1:] == ordered[:, :-1]).all(axis=0))[0]
    return tuple(zip(kept, ordered[:, same[0]].tolist(), strict=True)) if len(same) else None


def _read(relations: _Tables) -> dict[IndexVar, np.ndarray]:
    """Evaluate every index variable at each combination of values of the variables that no relation determines.

    A value is -1 where a table is read out of range, or holds an index that is out of range.
    """
    sizes = {v: size for names, pattern in relations for v, size in zip(names, pattern.shape, strict=True)}
    determined = {names[-1] for names, _ in relations}
    free = [v for v in sizes if v not in determined]
    read = {v: np.arange(sizes[v]).reshape([-1 if v == w else 1 for w in free]) for v in free}
    for (*names, last), pattern in relations:
        *elements, coordinates = pattern.rows()
        table = np.full(pattern.shape[:-1], -1, np.int64)
        table[tuple(elements)] = coordinates
        where = np.broadcast_arrays(*(read[v] for v in names))
        coordinate = table[tuple(np.maximum(axis, 0) for axis in where)] if table.size else np.full(where[0].shape, -1)
        read[last] = np.where(np.all([axis >= 0 for axis in where], axis=0), coordinate, -1)
    # Every combination of the free variables is one write, so all columns get the same full shape.
    every = np.broadcast_shapes(*(column.shape for column in read.values()))
    return {v: np.broadcast_to(column, every) for v, column in read.items()}


def as_product(
    statement: Statement, tensors: dict[str, Any], multiplied: Callable[[Statement], Any]
) -> tuple[Statement, dict[str, Any], Semiring]:
    """Turn a statement with `min=` or `max=` into one product by a semiring. `multiplied` evaluates a product.

    Returns the product's statement, the tensors that were made for it, and the semiring.
    """
    add: Add = "min" if statement.operator == "min=" else "max"
    terms, more = [], dict[str, Any]()
    for number, term in enumerate(statement.terms):
        factors = [factor for factor in term.factors if not _is_pattern(tensors[factor.tensor])]
        terms.append(_Term(number, term.coefficient, factors))
    related = [f for term in statement.terms for f in term.factors if _is_pattern(tensors[f.tensor])]
    if len(terms) == 1:
        factors = terms[0].with_number(more)
    else:
        factors = [term.as_factor(tensors, more, multiplied) for term in terms]
    product = Product(1, (*factors, *dict.fromkeys(related)))
    return replace(statement, terms=(product,)), more, Semiring(add, "*" if len(terms) == 1 else "+")


def _is_pattern(x: Any) -> bool:
    return isinstance(x, (BarePattern, Pattern, DynamicPattern))


class _Term:
    def __init__(self, number: int, coefficient: complex, factors: list[Access]) -> None:
        self.name, self.coefficient, self.factors = f"'{number}", coefficient, factors

    def with_number(self, more: dict[str, Any]) -> list[Access]:
        """Return the factors, preceded by the coefficient. A coefficient of 1 is left out if there are factors."""
        if self.coefficient == 1 and self.factors:
            return self.factors
        more[self.name] = self.coefficient
        return [Access(self.name, ()), *self.factors]

    def as_factor(
        self, tensors: dict[str, Any], more: dict[str, Any], multiplied: Callable[[Statement], Any]
    ) -> Access:
        """Turn the term into a single factor."""
        if not self.factors:
            return self.with_number(more)[0]
        if len(self.factors) == 1:
            (factor,) = self.factors
            if self.coefficient == 1:
                return factor
            more[self.name] = tensors[factor.tensor] * self.coefficient
            return replace(factor, tensor=self.name)
        indices = tuple(dict.fromkeys(v for factor in self.factors for v in factor.variables()))
        target = Access(self.name, indices)
        more[self.name] = multiplied(Statement(target, (Product(self.coefficient, tuple(self.factors)),)))
        return target
