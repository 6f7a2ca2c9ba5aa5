"""What hypothesis draws in tests of several folders."""

from hypothesis import strategies as st

from jsparse.formats import Format, Level, LevelKind

__all__ = ["formats"]


@st.composite
def formats(draw: st.DrawFn, ndim: int) -> Format:
    """Any format that holds any entries: what is above a singleton is nonunique."""
    levels: list[Level] = []
    for dim in draw(st.permutations(range(ndim))):
        kinds = [LevelKind.DENSE, LevelKind.COMPRESSED]
        if levels and levels[-1].kind is not LevelKind.DENSE:
            kinds.append(LevelKind.SINGLETON)
        kind = draw(st.sampled_from(kinds))
        if kind is LevelKind.SINGLETON:
            levels[-1] = Level(levels[-1].kind, levels[-1].dim, unique=False)
        levels.append(Level(kind, dim, unique=kind is LevelKind.DENSE or draw(st.booleans())))
    return Format(tuple(levels))
