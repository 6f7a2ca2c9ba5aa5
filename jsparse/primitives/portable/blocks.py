"""Products of blocks: a pattern whose entries are dense blocks, times a dense array.

    R[t, n, m] = Σ X[s(e), n, k] · V[e, k, m]        summed over k, and over the entries e with t(e) = t

Here t are the index variables that the pattern shares with the result, and s are the ones that it shares with X; n, k
and m are the dense index variables of X and R, of X and V, and of V and R. Each letter stands for several index
variables, which become one axis. The derivative with respect to X is a product of blocks, too. The derivative with
respect to V is not a product of blocks, but a sampled product.

XLA would write X[s(e)] and the products of all entries to memory. A kernel (`block_kernels.py`) reads each block of X
in place. The entries are sorted by their target t(e). Entries that take no part, such as padding, come after the
entries of all targets. So their values are never multiplied, even if they are NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.arrays import Array
from jsparse.base.dataclass import dataclass
from jsparse.notation import IndexVar
from jsparse.primitives.portable.stream import Stream, slots_of, stream_of
from jsparse.primitives.portable.summed import unflatten_slots
from jsparse.primitives.spec import Spec

MOST = 1 << 18
"""The most entries that the kernels add up for one element of the result."""

Group = tuple[IndexVar, ...]


@dataclass(frozen=True)
class BlockProduct:
    """An einsum that is a product of blocks V on a pattern and a dense array X.

    Attributes:
        spec: the einsum.
        number: the index of the factor V.
        targets: t, the index variables that the pattern shares with the result.
        sources: s, the index variables that the pattern shares with X.
        outer: n, the dense index variables of X and the result.
        summed: k, the dense index variables of X and V.
        kept: m, the dense index variables of V and the result.
    """

    spec: Spec
    number: int
    targets: Group
    sources: Group
    outer: Group
    summed: Group
    kept: Group

    def size(self, group: Group) -> int:
        """The size of the axis that a group of index variables becomes."""
        sizes = dict(self.spec.sizes)
        return prod(sizes[v] for v in group)

    def is_empty(self, factors: Sequence[Array]) -> bool:
        """Return whether the result or a factor has no elements."""
        return 0 in (*self.spec.shape(self.spec.result), *(np.size(x) for x in factors))

    def operands(self, factors: Sequence[Array], arrays: Sequence[Array]) -> BlockOperands:
        """The operands of a kernel. `arrays` are the index arrays of a dynamic pattern."""
        term, other = self.spec.factors[self.number], self.spec.factors[1 - self.number]
        (walk,) = self.spec.walks
        values, labels = unflatten_slots(factors[self.number], term, self.spec), (*term.before, SLOTS, *term.behind)
        is_transposed = labels[-1] in self.summed  # kernels take both orders, so that blocks are not moved
        inner = (self.kept, self.summed) if is_transposed else (self.summed, self.kept)
        x = _group_axes(factors[1 - self.number], other.before, (self.sources, self.outer, self.summed))
        blocks = _group_axes(values, labels, ((SLOTS,), *inner))
        entries = SortedEntries.of(stream_of(walk, 0, slots_of(walk.pattern, arrays)), self)
        return BlockOperands(x, blocks, is_transposed, entries, self.spec.dtype_of(factors))

    def result(self, out: jax.Array) -> jax.Array:
        """Convert a kernel's result, with axes (targets, outer, kept), to the result of the einsum."""
        labels, sizes = (*self.targets, *self.outer, *self.kept), dict(self.spec.sizes)
        shaped = out.reshape([sizes[v] for v in labels])
        return jnp.transpose(shaped, [labels.index(v) for v in self.spec.result.before])


SLOTS = ""  # the label of the axis of slots, which is not an index variable's


def _group_axes(x: Array, labels: Group, groups: Sequence[Group]) -> jax.Array:
    """Transpose and reshape an array so that it has one axis for each group of labels."""
    sizes = dict(zip(labels, np.shape(x), strict=True))
    moved = jnp.transpose(x, [labels.index(v) for group in groups for v in group])
    return moved.reshape([prod(sizes[v] for v in group) for group in groups])


@dataclass(frozen=True, eq=False)
class BlockOperands:
    """The operands of a kernel that multiplies blocks by a dense factor.

    The axes n, k and m are the axes `outer`, `summed` and `kept` of `BlockProduct`.

    Attributes:
        x: (sources, n, k) the dense factor.
        values: (nse, k, m) the blocks; (nse, m, k) if they are transposed.
        is_transposed: whether the blocks are transposed.
        entries: the entries, sorted by their targets.
        dtype: the dtype of the result.
    """

    x: jax.Array
    values: jax.Array
    is_transposed: bool
    entries: SortedEntries
    dtype: np.dtype

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """The number of targets, and the sizes of the axes n, k and m."""
        k, m = reversed(self.values.shape[1:]) if self.is_transposed else self.values.shape[1:]
        return len(self.entries.pointers) - 1, self.x.shape[1], k, m


@dataclass(frozen=True, eq=False)
class SortedEntries:
    """The entries of a pattern, sorted by their targets. Entries that take no part, such as padding, come last.

    Attributes:
        pointers: (targets + 1,) target t has the entries from pointers[t] to pointers[t + 1] - 1.
        slots: (nse,) the slot of each entry.
        sources: (nse,) the source of each entry. All of them are in range, also in padding.
        targets: (nse,) the target of each entry. All of them are in range, also in padding.
    """

    pointers: Array
    slots: Array
    sources: Array
    targets: Array

    @staticmethod
    def of(rows: Stream, product: BlockProduct) -> SortedEntries:
        """Sort the entries of a stream. The arrays are numpy arrays if the stream is known while tracing."""
        count, xp = product.size(product.targets), np if rows.is_known else jnp
        sizes = dict(product.spec.sizes)
        targets, sources = (xp.asarray(rows.flat(group, sizes)) for group in (product.targets, product.sources))
        if rows.live is not None:
            targets, sources = xp.where(rows.live, targets, count), xp.where(rows.live, sources, 0)
        slots = np.argsort(targets, kind="stable") if rows.is_known else jnp.argsort(targets)
        ordered = targets[slots]
        pointers = xp.searchsorted(ordered, xp.arange(count + 1, dtype=np.int32))
        arrays = (pointers, slots, sources[slots], xp.minimum(ordered, count - 1))
        return SortedEntries(*(x.astype(np.int32) for x in arrays))


def block_product(spec: Spec) -> BlockProduct | None:
    """Return the einsum as a product of blocks.

    None if it is not a product of blocks, or if an element of the result may be a sum over more than MOST entries.
    """
    lain = [term.on for term in spec.factors]
    is_product = spec.semiring.is_linear and spec.mask is None and len(lain) == 2 and set(lain) == {0, None}
    if not is_product or len(spec.walks) > 1 or spec.walks[0].lead or spec.result.on is not None:
        return None
    number, sparse = lain.index(0), dict.fromkeys(spec.walks[0].indices)
    on, other = spec.factors[number], spec.factors[1 - number].before
    labels = [(*on.before, *on.behind), other, spec.result.before]
    if any(len(set(names)) < len(names) for names in labels) or not sparse.keys().isdisjoint(labels[0]):
        return None
    values, x, out = ([v for v in names if v not in sparse] for names in labels)
    outer, summed, kept = (tuple(v for v in a if v in b) for a, b in ((x, out), (x, values), (values, out)))
    # Each dense index variable is in two terms. One in all three is a batch, one in a single term is summed alone.
    if sorted((*outer, *summed, *kept)) != sorted({*values, *x, *out}):
        return None
    targets, sources = (tuple(v for v in sparse if v in term) for term in (spec.result.before, other))
    candidate = BlockProduct(spec, number, targets, sources, outer, summed, kept)
    # The kernels add one product after the other, and XLA's operations add more of them more accurately.
    is_long = candidate.size(tuple(v for v in sparse if v not in targets)) > MOST
    return None if is_long or not (targets and outer and summed and kept) else candidate
