"""`entries` as XLA operations: the sorted entries of a sum of products, and the values of the products on them.

The patterns of a product are joined: a row is one combination of their entries. Rows are merged, chunk by chunk, into
a buffer with room for as many entries as the result's capacity:

    buffer = the first of sort(distinct(buffer and chunk))

so no array has an element for every row. After an overflow, each later row adds 1 to the count, even if the row
repeats an entry. So the count may exceed the number of entries, but is never less.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple, cast

import jax.numpy as jnp
import numpy as np

from jsparse.base.dataclass import dataclass
from jsparse.formats import Format, Pattern, PatternType
from jsparse.notation import IndexVar
from jsparse.primitives.assembly import OutputPattern, source_count
from jsparse.primitives.batch import map_leading_axes
from jsparse.primitives.entries import apart
from jsparse.primitives.entries_spec import Entries
from jsparse.primitives.portable.assembly import assemble_arrays, sort_distinct
from jsparse.primitives.portable.join import join_known, visit
from jsparse.primitives.portable.stream import Stream, slots_of, stream_of
from jsparse.primitives.spec import PatternAccess

DENSE = Format.plain("(i) -> (i : dense)", 1)

AT_ONCE = 1 << 16  # rows that are merged at a time, or as many as the result has slots


def compute_entries(*operands: Any, work: Entries) -> list[Any]:
    """Compute the index arrays of the result if its pattern is dynamic, and its values if `work` has specs."""
    if work.specs:
        return apart(*operands, work=work)

    assemble = map_leading_axes(lambda *operands: _assemble_pattern(operands, work), len(work.lead))
    return list(assemble(*operands))


def _assemble_pattern(operands: Sequence[Any], work: Entries) -> tuple[Any, ...]:
    reached, type_ = work.reached, work.result
    assert isinstance(type_, PatternType)
    if not type_.shape:
        return ()
    index = work.split(operands)[1]
    merged = Merged(type_, tuple(reached.kept[level.dim] for level in type_.format.levels))
    total = merged.start()
    for term in reached.terms:
        total = _with_term(merged, total, reached, term, index)
    arrays = list(assemble_arrays(total.columns, total.distinct, type_).arrays)
    if type_.limit is not None:
        last, capacity = type_.limit
        reached_count = total.count // max(type_._slots_below(last), 1)
        counts = [jnp.where(total.overflowed, jnp.maximum(reached_count, capacity + 1), 0).astype(type_.index_dtype)]
        counts += source_count(reached.walks, index, type_)
        end = reduce(jnp.maximum, counts, arrays[last][-1])
        arrays[last] = arrays[last].at[-1].set(end)
    return tuple(arrays)


def _with_term(merged: Merged, total: Entered, reached: OutputPattern, term: Sequence[int], index: Any) -> Entered:
    """Add to `total` the entries of one product. Its patterns have the indices `term` in `reached.walks`."""
    sizes = dict(reached.sizes)
    walks = [reached.walks[n] for n in term]
    cut = [index[n][: walk.array_counts[0]] if index[n] else () for n, walk in zip(term, walks, strict=True)]
    for v in reached.kept:  # an index variable of dense factors alone: every coordinate occurs
        if not any(v in walk.indices for walk in walks):
            walks.append(PatternAccess((v,), Pattern((sizes[v],), DENSE, ())))
            cut.append(())
    slots = [slots_of(walk.pattern, arrays) for walk, arrays in zip(walks, cut, strict=True)]
    streams = [stream_of(walk, n, of_walk) for n, (walk, of_walk) in enumerate(zip(walks, slots, strict=True))]
    if any(stream.rows == 0 for stream in streams):
        return total
    rows, later = join_known(walks, streams, cut, sizes)
    rows = rows.with_variables(frozenset(reached.kept).union(*(step.variables for step in later)))
    return cast(Entered, visit(total, rows, later, merged.add, max(merged.type.nse, AT_ONCE)))


class Entered(NamedTuple):
    """The result's entries in the rows that were merged so far.

    Attributes:
        columns: for each level, coordinates (nse,). The first `distinct` coordinates belong to the sorted entries.
        distinct: the number of entries in `columns`.
        count: a number of slots that suffices for all entries.
        overflowed: whether `columns` had no room for some entries.
    """

    columns: tuple[Any, ...]
    distinct: Any
    count: Any
    overflowed: Any


@dataclass(frozen=True)
class Merged:
    """A merge of rows into sorted, distinct entries.

    Attributes:
        type: the type of the result.
        levels: the index variable of each level.
    """

    type: PatternType
    levels: tuple[IndexVar, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The size of each level's dimension."""
        return tuple(self.type.shape[level.dim] for level in self.type.format.levels)

    def start(self) -> Entered:
        """Return an `Entered` without entries."""
        dtype = self.type.index_dtype
        zero = jnp.zeros((), dtype)
        return Entered(tuple(jnp.zeros(self.type.nse, dtype) for _ in self.levels), zero, zero, jnp.zeros((), bool))

    def add(self, total: Entered, rows: Stream) -> Entered:
        """Add an entry at the coordinates of each row that is live (see `Stream`), unless there is one already."""
        nse, dtype = self.type.nse, self.type.index_dtype
        counted = jnp.ones(rows.rows, bool) if rows.live is None else jnp.asarray(rows.live)
        live = jnp.concatenate([jnp.arange(nse) < total.distinct, counted])
        columns = [
            jnp.concatenate([old, jnp.asarray(rows.coordinates[v]).astype(dtype)])
            for old, v in zip(total.columns, self.levels, strict=True)
        ]
        tuples = sort_distinct(columns, live, self.sizes, np.dtype(np.int32))
        places = jnp.where(tuples.begins, jnp.cumsum(tuples.begins) - 1, nse)
        kept = tuple(old.at[places].set(x, mode="drop") for old, x in zip(total.columns, tuples.columns, strict=True))
        distinct = jnp.sum(tuples.begins, dtype=dtype)
        seen = total.count + jnp.sum(counted, dtype=dtype)
        count = jnp.where(total.overflowed, seen, distinct)
        return Entered(kept, jnp.minimum(distinct, nse), count, total.overflowed | (distinct > nse))
