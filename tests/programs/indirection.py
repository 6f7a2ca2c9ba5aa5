"""A sum of products, some of whose indices are read from tables of integers, as a value: see `evaluation`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
from interpreters.scalars import as_stored
from programs.evaluation import Evaluation, Leaf, result_source
from programs.grid import add, axes, read
from programs.program import DenseOperand, SparseOperand, is_wide

import jsparse
from jsparse.notation import parse_statement
from jsparse.ops.evaluate import plan_sum
from jsparse.planning.planned import Planned
from jsparse.planning.signature import IndexRelation

__all__ = ["Indirect", "nested", "variables"]

ONE = DenseOperand((1,), (), "int32")  # the factor of a term without factors


@dataclass(frozen=True)
class Indirect(Evaluation):
    """`jsparse.evaluate(text, shape=shape, out_format=out_format, **tensors, **tables)`.

    An index of a leaf is a name, or a leaf that reads a table. Each product is computed at every point of its indices
    and the target's, and adds nothing where an index is out of range.

    Attributes:
        operator: "+=", or "=" if no element is written twice.
        tables: the arrays of integers. A table that is also a factor is in `tensors` as well.
        target_shape: the target's shape.
        gives_shape: whether `shape=` is given.
        before: the target's previous values, which are given by its name. Then the result is dense.
    """

    operator: str
    tables: tuple[tuple[str, DenseOperand], ...]
    target_shape: tuple[int, ...]
    gives_shape: bool
    before: DenseOperand | None

    @property
    def needs_x64(self) -> bool:
        """Whether JAX must keep 64-bit dtypes. Tables do not require it."""
        return (self.before is not None and is_wide(self.before.dtype)) or Evaluation.needs_x64.fget(self)  # type: ignore[attr-defined]

    @cached_property
    def dtype(self) -> np.dtype:
        """The dtype of the result."""
        with jax.enable_x64(self.needs_x64):
            before = [] if self.before is None else [np.dtype(self.before.tensor().dtype)]
            return np.dtype(jnp.result_type(self.sum_dtype, *before))

    @cached_property
    def sum_dtype(self) -> np.dtype:
        """The dtype of the sum of the terms."""
        terms = parse_statement(self.text).terms
        numbers = [term.coefficient for term in terms if abs(term.coefficient) != 1 or not term.factors]
        with jax.enable_x64(self.needs_x64):
            return np.dtype(jnp.result_type(*(jnp.dtype(x.dtype) for _, x in self.tensors), *numbers))

    @property
    def exact(self) -> type:
        """The dtype in which numpy adds the terms without rounding."""
        return np.complex128 if self.sum_dtype.kind == "c" else np.int64

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The size of each index."""
        found: dict[str, int] = {}
        shapes = self._shapes
        leaves = [leaf for _, product in self.expression.expanded() for leaf in product]
        for leaf, shape in [(self.target, self.target_shape), *((leaf, shapes[leaf.name]) for leaf in leaves)]:
            _find_sizes(leaf, shape, shapes, found)
        return found

    @property
    def space(self) -> int:
        """The number of points of the largest product, with an axis for each access to a table."""
        return max(self._points((self.target, *product)) for _, product in self.expression.expanded())

    def _points(self, leaves: Sequence[Leaf]) -> int:
        shapes = {**self._shapes, self.target.name: self.target_shape}
        accesses = {access for leaf in leaves for access in _accesses(leaf, shapes[leaf.name], shapes)}
        return prod(self._sizes_of(leaves).values()) * prod(size for _, size in accesses)

    @property
    def bound(self) -> int:
        """An upper bound of the magnitudes of all partial sums."""
        magnitudes = {name: np.abs(x.array) for name, x in self.tensors}
        return int(self._total(magnitudes, np.abs, np.float64).max(initial=0))

    @cached_property
    def expected(self) -> np.ndarray:
        """The result, computed by numpy in exact integers, and converted to the result's dtype."""
        if self.before is None:
            return self.summed
        summed, before = self.summed.astype(self.dtype), self.before.tensor().astype(self.dtype)
        if self.operator == "=":
            return np.where(self.replaced > 0, summed, before)
        wide = np.int64 if self.dtype.kind in "biu" else np.complex128 if self.dtype.kind == "c" else np.float64
        return as_stored(summed.astype(wide) + before.astype(wide), self.dtype)

    @cached_property
    def summed(self) -> np.ndarray:
        """The sum of the terms, without previous values of the target."""
        return as_stored(
            self._total({name: x.array for name, x in self.tensors}, lambda number: number, self.exact), self.sum_dtype
        )

    @cached_property
    def written(self) -> np.ndarray:
        """How often each element of the target is written: how many coordinates of its inner indices lead there."""
        at = axes(self._sizes_of([self.target]))
        return add(np.zeros(self.target_shape, np.int64), self._where(self.target, at), np.ones((), int), at)

    @property
    def replaced(self) -> np.ndarray:
        """How often each element of the target is written by products all of whose tables are in range."""
        found = np.zeros(self.target_shape, np.int64)
        for _, product in self.expression.expanded():
            led = [leaf for leaf in product if nested(leaf)]
            at = axes(self._sizes_of([self.target, *(inner for leaf in led for inner in nested(leaf))]))
            inside = prod((self._within(leaf, at) for leaf in led), start=np.ones((), int))
            add(found, self._where(self.target, at), inside, at)
        return found

    @cached_property
    def reached(self) -> np.ndarray:
        """A mask of the result's elements to which tables and entries of sparse tensors lead in some product. Indices
        of dense tensors alone do not restrict it."""
        masks = {name: x.stored.astype(int) for name, x in self.tensors if isinstance(x, SparseOperand)}
        found = np.zeros(self.target_shape, np.int64)
        for _, product in self.expression.expanded():
            stored = [leaf for leaf in product if leaf.name in masks]
            led = [leaf for leaf in product if leaf.name not in masks]
            at = axes(self._sizes_of([self.target, *stored, *(inner for leaf in led for inner in nested(leaf))]))
            value = prod((read(masks[leaf.name], *self._where(leaf, at)) for leaf in stored), start=np.ones((), int))
            for leaf in led:
                value = value * self._within(leaf, at)
            add(found, self._where(self.target, at), value, at)
        return found > 0

    @property
    def is_sparse(self) -> bool:
        """Whether the result is sparse by default, by the rule for other sums. An index read from a table counts as an
        index variable, and each in the target as another one."""
        target_shape = list(_indices(self.target, self.target_shape))
        target = {index if index not in target_shape[:n] else (n, index) for n, index in enumerate(target_shape)}
        sparse = {name: x.shape for name, x in self.tensors if isinstance(x, SparseOperand)}
        for _, product in self.expression.expanded():
            stored = [set(_indices(leaf, sparse[leaf.name])) for leaf in product if leaf.name in sparse]
            carried = len(target) >= 2 and target <= set().union(*stored)
            if not carried and not any(indices <= target for indices in stored):
                return False
        return True

    @property
    def given(self) -> dict[str, SparseOperand | DenseOperand]:
        """All arguments that are passed by name."""
        before = {} if self.before is None else {self.target.name: self.before}
        return {**dict(self.tables), **dict(self.tensors), **before}

    def arguments(self, array=np.asarray) -> tuple[dict[str, object], object]:
        """The tensors and tables by name, and `out_format`; `array` makes the dense ones that are factors."""
        _, out = super().arguments(array)
        as_is = {name for name, _ in self.tables} - {name for name, _ in self.tensors}
        made = {
            name: x.tensor() if name in as_is or isinstance(x, SparseOperand) else array(x.tensor())
            for name, x in self.given.items()
        }
        return made, out

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The argument `shape=`."""
        return self.target_shape if self.gives_shape else None

    def planned(self, array) -> tuple[Planned, list[SparseOperand | DenseOperand | None]]:
        """The plan with its operands, and the random operand of each; None for tables, which have no values."""
        made, out = self.arguments(array)
        planned = plan_sum(self.text, made, self.shape, out, None)
        drawn = {id(made[name]): x for name, x in self.tensors}
        return planned, [None if isinstance(x, IndexRelation) else drawn.get(id(x), ONE) for x in planned.operands]

    def run(self) -> object:
        """The result of `jsparse.evaluate`."""
        with jax.enable_x64(self.needs_x64):
            tensors, out = self.arguments()
            return jsparse.evaluate(self.text, shape=self.shape, out_format=out, **tensors)

    def __str__(self) -> str:
        lines = ["import jax, jsparse, numpy as np", ""]
        lines += ["jax.config.update('jax_enable_x64', True)"] if self.needs_x64 else []
        lines += ["tensors = {}", *(f"tensors['{name}'] = {operand.source()}" for name, operand in self.given.items())]
        out = self.out_format.source() if isinstance(self.out_format, SparseOperand) else repr(self.out_format)
        shape = f", shape={self.target_shape}" if self.gives_shape else ""
        lines += [f"got = jsparse.evaluate('{self.text}'{shape}, out_format={out}, **tensors)", ""]
        lines += ["", *(inspect.getsource(function) + "\n" for function in (axes, read, add))]
        return "\n".join([*lines, *self._numpy_lines(), *result_source(self.out_format)])

    def _numpy_lines(self) -> Iterator[str]:
        exact, tables = self.exact.__name__, dict(self.tables)
        dense = {
            name: f"np.asarray(tensors['{name}']{'.todense()' * isinstance(x, SparseOperand)})"
            f".astype('{'int64' if name in tables else exact}')"
            for name, x in (*self.tables, *self.tensors)
        }
        yield f"want = np.zeros({self.target_shape}, '{exact}')"
        for coefficient, product in self.expression.expanded():
            yield f"at = axes({self._sizes_of((self.target, *product))})"
            factors = [f"read({', '.join([dense[leaf.name], *_sources(leaf, dense)])})" for leaf in product]
            value = " * ".join([str(coefficient), *factors])
            yield f"add(want, [{', '.join(_sources(self.target, dense))}], {value}, at)"
        yield f"want = want.astype(jax.numpy.dtype('{self.sum_dtype}'))"
        before = f"tensors['{self.target.name}']"
        if self.before is not None and self.operator == "+=":
            yield f"want = jax.numpy.add(want, {before})"
        elif self.before is not None:
            yield f"count = np.zeros({self.target_shape}, int)"
            for _, product in self.expression.expanded():
                yield f"at = axes({self._sizes_of((self.target, *product))})"
                led = [leaf for leaf in product if nested(leaf)]
                inside = [f"read(np.ones({self._shapes[f.name]}, int), {', '.join(_sources(f, dense))})" for f in led]
                yield f"add(count, [{', '.join(_sources(self.target, dense))}], {' * '.join(inside) or 1}, at)"
            yield f"want = np.where(count, want, {before})"

    @property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: operand.shape for name, operand in (*self.tables, *self.tensors)}

    def _total(self, arrays: Mapping[str, np.ndarray], of_number, dtype: type) -> np.ndarray:
        total = np.zeros(self.target_shape, dtype)
        for coefficient, product in self.expression.expanded():
            at = axes(self._sizes_of((self.target, *product)))
            factors = (read(arrays[leaf.name], *self._where(leaf, at)) for leaf in product)
            add(total, self._where(self.target, at), of_number(coefficient) * prod(factors, start=np.ones((), int)), at)
        return total

    def _sizes_of(self, leaves: Sequence[Leaf]) -> dict[str, int]:
        """The size of each index in the leaves, nested ones included."""
        return {v: self.sizes[v] for v in dict.fromkeys(v for leaf in leaves for v in variables(leaf))}

    def _where(self, leaf: Leaf, at: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """The coordinates of each index at all points; -1 where a table is read out of range."""
        return [
            read(self._arrays[index.name], *self._where(index, at), outside=-1)
            if isinstance(index, Leaf)
            else at[index]
            for index in leaf.indices
        ]

    def _within(self, leaf: Leaf, at: Mapping[str, np.ndarray]) -> np.ndarray:
        """Whether all indices that are read from tables are in range, at all points."""
        inside = np.ones((), bool)
        for index, size in zip(leaf.indices, dict(self.tensors)[leaf.name].shape, strict=True):
            if isinstance(index, Leaf):
                where = read(self._arrays[index.name], *self._where(index, at), outside=-1)
                inside = inside & (where >= 0) & (where < size)
        return inside

    @cached_property
    def _arrays(self) -> dict[str, np.ndarray]:
        return {name: x.array for name, x in self.tables}


def variables(leaf: Leaf) -> Iterator[str]:
    """The names of indices in a leaf and in the leaves nested in it."""
    for index in leaf.indices:
        yield from variables(index) if isinstance(index, Leaf) else (index,)


def nested(leaf: Leaf) -> list[Leaf]:
    """The accesses to tables among the indices of a leaf."""
    return [index for index in leaf.indices if isinstance(index, Leaf)]


def _indices(leaf: Leaf, shape: Sequence[int]) -> Iterator[object]:
    """The indices of a leaf. Equal accesses to tables count as different indices if their sizes differ."""
    return (
        (index, size) if isinstance(index, Leaf) else index for index, size in zip(leaf.indices, shape, strict=True)
    )


def _accesses(leaf: Leaf, shape: Sequence[int], shapes: Mapping[str, Sequence[int]]) -> Iterator[tuple[Leaf, int]]:
    for index, size in zip(leaf.indices, shape, strict=True):
        if isinstance(index, Leaf):
            yield index, size
            yield from _accesses(index, shapes[index.name], shapes)


def _find_sizes(leaf: Leaf, shape: Sequence[int], shapes: Mapping[str, Sequence[int]], found: dict[str, int]) -> None:
    for index, size in zip(leaf.indices, shape, strict=True):
        if isinstance(index, Leaf):
            _find_sizes(index, shapes[index.name], shapes, found)
        else:
            assert found.setdefault(index, size) == size, (index, size, found)


def _sources(leaf: Leaf, dense: Mapping[str, str]) -> list[str]:
    """The Python expression for each index."""
    return [
        f"read({', '.join([dense[index.name], *_sources(index, dense)])}, outside=-1)"
        if isinstance(index, Leaf)
        else f"at['{index}']"
        for index in leaf.indices
    ]
