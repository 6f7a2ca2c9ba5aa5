"""The values of a call's operands where the call is computed: at all points, or at the entries of a pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.formats import Pattern
from jsparse.notation import Access, IndexVar, Product, Statement
from jsparse.planning.desugaring import desugar_statement
from jsparse.planning.planned import as_array, as_operand, plan_statement
from jsparse.planning.signature import OutFormat, is_sparse, pattern_of
from jsparse.planning.term import check_rank, infer_sizes
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.sparse_tensor import PatternLike

_SAMPLE, _ONES = "'sample", "'ones"  # names that no tensor of a statement has


@dataclass(frozen=True, eq=False)
class Place:
    """The place where a call is computed.

    Attributes:
        indices: the index variables of the call's value.
        pattern: the pattern over `indices` at whose entries the call is computed; None if it is computed at all points.
        complete: the indices of operands' patterns. These patterns store an entry at every point of the place.
    """

    indices: tuple[IndexVar, ...]
    pattern: Pattern | DynamicPattern | None = None
    complete: frozenset[int] = frozenset()


@dataclass(frozen=True, eq=False)
class Operands:
    """The tensors of a statement, and the size of each index variable.

    Attributes:
        text: the statement, for messages.
        tensors: the tensors by name, powers included.
    """

    text: str
    tensors: Mapping[str, Any]
    sizes: Mapping[IndexVar, int]

    def shape(self, indices: Sequence[IndexVar]) -> tuple[int, ...]:
        """The sizes of index variables."""
        return tuple(self.sizes[v] for v in indices)

    def pattern(self, access: Access) -> Pattern | DynamicPattern | None:
        """The pattern of the tensor of an access; None for an array."""
        return pattern_of(self.tensors[access.tensor])

    def is_bare(self, access: Access) -> bool:
        """Whether the tensor of an access is a pattern without values."""
        return isinstance(self.tensors[access.tensor], Pattern | DynamicPattern)

    def may_miss(self, access: Access) -> bool:
        """Whether an access reads from tables that may hold integers out of range."""
        for index, size in zip(access.indices, _shape(self.tensors[access.tensor]), strict=True):
            if isinstance(index, Access):
                table = self.tensors[index.tensor]
                if isinstance(table, jax.core.Tracer) or index.indirections():
                    return True
                known = np.asarray(table)
                if known.size and (known.min() < 0 or known.max() >= size):
                    return True
        return False

    def at(self, place: Place, access: Access) -> Any:
        """The values of an access at the points of a place: one for each slot of the place's pattern, or an array that
        broadcasts to the place's indices. An access without index variables gives shape ()."""
        if not access.variables():
            return self._evaluate_access(access, (), "dense")
        if place.pattern is not None:
            return self._evaluate_access(access, place.indices, place.pattern).values
        own = tuple(v for v in place.indices if v in access.variables())
        is_whole = access.indices == own and self.pattern(access) is None
        value = (
            as_array(self.tensors[access.tensor], self.text)
            if is_whole
            else self._evaluate_access(access, own, "dense")
        )
        return jnp.expand_dims(value, [n for n, v in enumerate(place.indices) if v not in own])

    def presence(self, place: Place, access: Access) -> jax.Array:
        """Return an array shaped as by `at`, nonzero exactly where the access has an entry, or reads within range."""
        pattern = self.pattern(access)
        if not access.indirections() and pattern is not None:
            return self._with_ones(pattern).at(place, Access(_ONES, access.indices))
        dims = [dim for dim, index in enumerate(access.indices) if isinstance(index, Access)]
        ones = jnp.ones([_shape(self.tensors[access.tensor])[dim] for dim in dims], jnp.float32)
        return self._with_ones(ones).at(place, Access(_ONES, tuple(access.indices[dim] for dim in dims)))

    def _with_ones(self, tensor: PatternLike | Array) -> Operands:
        return replace(self, tensors={**self.tensors, _ONES: tensor})

    def _evaluate_access(self, access: Access, indices: tuple[IndexVar, ...], out_format: OutFormat) -> Any:
        statement = Statement(Access(_SAMPLE, indices), (Product(1, (access,)),))
        rewritten = desugar_statement(self.text, statement, self.tensors, None)
        tensors, shape = {**self.tensors, **rewritten.relations}, self.shape(indices)
        return plan_statement(self.text, rewritten.statement, tensors, out_format, None, shape=shape).run()


def operands_of(
    text: str,
    statement: Statement,
    tensors: Mapping[str, PatternLike | Array],
    out_format: OutFormat,
    shape: Sequence[int] | None,
) -> Operands:
    """Collect and check the operands of a statement with calls.

    Args:
        shape: the target's shape, if the caller gave it.

    Raises DTypeError or LeafError for an operand that is not a tensor, ShapeError if ranks or sizes do not agree.
    """
    found, target = [], statement.target
    for access in statement.read():
        as_operand(tensors[access.tensor], partial("{} of '{}'".format, access.tensor, text), text)
    for access in (inner for one in (*statement.read(), target) for inner in (*one.indirections(), one)):
        if access != target:
            check_rank(text, access, _shape(tensors[access.tensor]))
            found.append(_direct(access, _shape(tensors[access.tensor])))
    requested = pattern_of(out_format) if is_sparse(out_format) else None
    shapes = [shape] if requested is None or len(requested.shape) != len(target.indices) else [requested.shape, shape]
    found += [_direct(target, one) for one in shapes if one is not None and len(one) == len(target.indices)]
    return Operands(text, tensors, infer_sizes(text, found))


def _direct(access: Access, shape: Sequence[int]) -> tuple[Access, tuple[int, ...]]:
    """Return an access without the indices that are read from tables, and the sizes of its other indices."""
    dims = [dim for dim, index in enumerate(access.indices) if not isinstance(index, Access)]
    return Access(access.tensor, tuple(access.indices[dim] for dim in dims)), tuple(shape[dim] for dim in dims)


def _shape(x: PatternLike | Array) -> tuple[int, ...]:
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)
