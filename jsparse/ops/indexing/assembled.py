"""Makes the index arrays of a selection from the arrays in its links, without another pass over the entries.

Dense levels store nothing. A chain of levels with coordinates stores its pointers and new coordinates, but leaves out
positions that have no selected entry below them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jsparse.formats import Format
from jsparse.formats.levels import COMPRESSED, DENSE, SINGLETON, LevelKind
from jsparse.ops.indexing.entries import Entries
from jsparse.ops.indexing.links import Block, kept_pointers

__all__ = ["index_arrays"]


@dataclass(frozen=True, eq=False)
class _Chain:
    """A chain of levels of the result.

    Attributes:
        pointers: from the positions above to the positions of this chain.
        columns: the coordinates of its positions, for each of its levels.
        blocks: how many positions the dense levels between this chain and the chain above have below each position of
            the chain above.
    """

    pointers: np.ndarray
    columns: list[np.ndarray]
    blocks: int


def index_arrays(entries: Entries, format: Format) -> tuple[np.ndarray, ...] | None:
    """The index arrays of entries. None if they have to be made from coordinates: the entries are not sorted by their
    coordinates, or the format has other levels than the entries were selected from."""
    found = _chains(entries, format) if entries.in_order else None
    if found is None:
        return None
    chains, below = found
    arrays: list[np.ndarray] = []
    kept = None if below else np.zeros(0, np.intp)
    for n in reversed(range(len(chains))):
        pointers, columns = _remaining(chains[n], kept)
        if n:
            pointers, kept = _without_empty(pointers, len(chains[n - 1].columns[0]), chains[n].blocks)
        arrays[:0] = [pointers, *columns]
    return tuple(arrays)


def _chains(entries: Entries, format: Format) -> tuple[list[_Chain], int] | None:
    """The chains of the result, and how many positions dense levels have below each position of the innermost chain.

    Returns None unless the format has exactly these levels.
    """
    chains: list[_Chain] = []
    kinds: list[LevelKind] = []
    through: np.ndarray | None = None  # pointers through chains that were dropped whole, with at most one position each
    blocks = 1
    for link in entries.links:
        if isinstance(link, Block):
            if link.dim not in entries.dropped:
                if through is not None:
                    return None  # a block is stored below each position that is left, not below each position above
                kinds.append(DENSE)
                blocks *= link.size
            continue
        pointers = link.pointers if through is None else link.pointers[through]
        columns = [column for dim, column in link.columns.items() if dim not in entries.dropped]
        through = None if columns else pointers
        if columns:
            kinds += [COMPRESSED, *[SINGLETON] * (len(columns) - 1)]
            chains.append(_Chain(pointers, columns, blocks))
            blocks = 1
    if through is not None or kinds != [level.kind for level in format.levels]:
        return None
    return chains, blocks


def _remaining(chain: _Chain, kept: np.ndarray | None) -> tuple[np.ndarray, list[np.ndarray]]:
    """The pointers and coordinates of the chain's positions with the numbers `kept`; None keeps all."""
    if kept is None:
        return chain.pointers, chain.columns
    return kept_pointers(chain.pointers, kept), [column.take(kept) for column in chain.columns]


def _without_empty(pointers: np.ndarray, above: int, blocks: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Leave out positions above that have no entries: the pointers below the others, and their numbers; None for all.

    There are `above` positions above, each with `blocks` segments.
    """
    filled: np.ndarray = pointers[1:] > pointers[:-1]
    if blocks != 1:
        filled = np.any(filled.reshape(above, blocks), axis=1)
    kept = np.flatnonzero(filled)
    if len(kept) == above:
        return pointers, None
    starts = pointers[:-1].reshape(above, blocks).take(kept, axis=0)
    return np.append(starts.reshape(-1), pointers[-1:]), kept
