"""Hypothesis strategies."""

from hypothesis import strategies as st

from jsparse.formats import Format, Level
from jsparse.formats.levels import COMPRESSED, DENSE, RANGE, SINGLETON

__all__ = ["formats"]


@st.composite
def formats(draw: st.DrawFn, ndim: int) -> Format:
    """Any format that can store any entries: a level above a singleton is nonunique."""
    levels: list[Level] = []
    for dim in draw(st.permutations(range(ndim))):
        kinds = [DENSE, COMPRESSED, RANGE]
        if levels and not levels[-1].kind.has_gaps:
            kinds.append(SINGLETON)
        kind = draw(st.sampled_from(kinds))
        if kind is SINGLETON:
            levels[-1] = Level(levels[-1].kind, levels[-1].dim, unique=False)
        levels.append(Level(kind, dim, unique=not kind.may_repeat or draw(st.booleans())))
    return Format(tuple(levels))
