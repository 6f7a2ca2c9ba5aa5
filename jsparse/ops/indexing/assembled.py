"""The index arrays of a selection, made of the arrays that its links hold: nothing is done for each entry again.

Dense levels store nothing. A chain of levels with coordinates stores its pointers and new coordinates, without the
positions below which nothing was selected.
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
        pointers: from the positions above to its own.
        columns: the coordinates of its positions, for each of its levels.
        blocks: how many of the positions above it belong to one position of the next chain above: what dense levels
            between them have.
    """

    pointers: np.ndarray
    columns: list[np.ndarray]
    blocks: int


def index_arrays(entries: Entries, format: Format) -> tuple[np.ndarray, ...] | None:
    """The index arrays of entries, or None where only coordinates give them: the entries are not in order of these, or
    the format has other levels than those that the entries were selected from."""
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
    """The chains of levels of the result, and how many positions dense levels have below each of the innermost one.

    The result is None unless the format has just these levels.
    """
    chains: list[_Chain] = []
    kinds: list[LevelKind] = []
    through: np.ndarray | None = None  # pointers through chains that were dropped whole, with at most one position each
    blocks = 1
    for link in entries.links:
        if isinstance(link, Block):
            if link.dim not in entries.dropped:
                if through is not None:
                    return None  # a block is stored below each position that is left, not below each of those above
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
    """The pointers and coordinates of the positions that are kept; None: all are."""
    if kept is None:
        return chain.pointers, chain.columns
    return kept_pointers(chain.pointers, kept), [column.take(kept) for column in chain.columns]


def _without_empty(pointers: np.ndarray, above: int, blocks: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The pointers below those positions above that have any entry, and which these are; None: all of them.

    There are `above` positions, each with `blocks` segments.
    """
    filled: np.ndarray = pointers[1:] > pointers[:-1]
    if blocks != 1:
        filled = np.any(filled.reshape(above, blocks), axis=1)
    kept = np.flatnonzero(filled)
    if len(kept) == above:
        return pointers, None
    starts = pointers[:-1].reshape(above, blocks).take(kept, axis=0)
    return np.append(starts.reshape(-1), pointers[-1:]), kept
