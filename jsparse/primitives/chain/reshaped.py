"""Reshaped arrays of a chain: neighbouring axes that are merged into one, as heads side by side are, or one divided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod

from jsparse.primitives.chain.drafts import ChainError, Drafts, View
from jsparse.primitives.chain.variables import Node

__all__ = ["reshaped"]


def reshaped(drafts: Drafts, x: View, shape: tuple[int, ...]) -> View:
    """The view of the same elements in another shape. Raises ChainError if its axes do not consist of whole axes.

    An operand is passed in the shape in which it is read, so its tensor has the new axes. A tensor that is computed
    keeps its axes, whose nodes are merged or divided.
    """
    given = [n for n, size in enumerate(x.shape) if size != 1]
    wanted = [n for n, size in enumerate(shape) if size != 1]
    nodes: dict[int, Sequence[Node]] = {}  # axis of the tensor → the nodes in its place
    places: list[tuple[int, int] | None] = [None] * len(shape)  # axis of the tensor, and the number of a node there
    for before, after in _groups([x.shape[n] for n in given], [shape[n] for n in wanted]):
        axes = [axis for n in before if (axis := x.axes[given[n]]) is not None]
        if not axes:
            continue  # elements are repeated along all of them
        if len(axes) < len(before) or axes != list(range(axes[0], axes[0] + len(axes))):
            raise ChainError(f"axes that are no neighbours are reshaped from {x.shape} to {shape}")
        nodes |= dict.fromkeys(axes, ()) | {axes[0]: _in_place(drafts, x, axes, [shape[wanted[n]] for n in after])}
        for number, n in enumerate(after):
            places[wanted[n]] = axes[0], number
    count = max(nodes, default=-1) + 1 if x.home is None else len(x.home)
    if len(nodes) != count:
        raise ChainError("part of an array is reshaped")
    begins = list(accumulate((len(nodes[axis]) for axis in range(count)), initial=0))
    home = None if x.home is None else tuple(node for axis in range(count) for node in nodes[axis])
    return View(x.tensor, home, tuple(None if at is None else begins[at[0]] + at[1] for at in places), shape)


def _in_place(drafts: Drafts, x: View, axes: Sequence[int], sizes: Sequence[int]) -> Sequence[Node]:
    """Nodes of these sizes in place of axes of a tensor; of an operand any numbers."""
    if len(axes) > 1 and len(sizes) > 1:
        raise ChainError(f"axes are divided and merged at once, from {x.shape}")
    if x.home is None:
        return range(len(sizes))
    nodes = [x.home[axis] for axis in axes]
    if len(nodes) == len(sizes):
        return nodes
    if any(drafts.variables.slots(node) is not None for node in nodes):
        raise ChainError("values on a pattern are reshaped")
    found = [drafts.variables.merged(nodes)] if len(sizes) == 1 else drafts.variables.divide(nodes[0], sizes)
    if found is None:
        raise ChainError(f"an axis is divided into {tuple(sizes)}, and otherwise before")
    return found


def _groups(given: Sequence[int], wanted: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the shortest runs of axes of two shapes that have as many elements as each other, by their numbers."""
    i = j = 0
    while i < len(given):
        before, after = [i], [j]
        i, j = i + 1, j + 1
        while (a := prod(given[n] for n in before)) != (b := prod(wanted[n] for n in after)):
            if a < b:
                before.append(i)
                i += 1
            else:
                after.append(j)
                j += 1
        yield before, after
