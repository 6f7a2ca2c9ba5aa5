"""Short names of formats, and their levels."""

from __future__ import annotations

from jsparse.errors import FormatError
from jsparse.formats.levels import COMPRESSED, DENSE, SINGLETON, Level, check_dimensions

__all__ = ["NAMES", "default_levels", "has_name", "named_levels"]

NAMES = ("csr", "csc", "dcsr", "dcsc", "coo", "csf")
_MATRICES = {
    "csr": (Level(DENSE, 0), Level(COMPRESSED, 1)),
    "csc": (Level(DENSE, 1), Level(COMPRESSED, 0)),
    "dcsr": (Level(COMPRESSED, 0), Level(COMPRESSED, 1)),
    "dcsc": (Level(COMPRESSED, 1), Level(COMPRESSED, 0)),
}


def has_name(name: str, ndim: int) -> bool:
    """Whether a short name denotes a format for `ndim` dimensions."""
    return ndim == 2 if name in _MATRICES else ndim >= 1


def named_levels(name: str, ndim: int) -> tuple[Level, ...]:
    """The levels of a short name or of "dense". Raises FormatError if the name has no format for `ndim` dimensions."""
    check_dimensions(ndim)
    if name == "dense":
        return tuple(Level(DENSE, dim) for dim in range(ndim))
    if name in _MATRICES:
        if ndim != 2:
            raise FormatError(
                f"Expected a matrix for the format {name}, but the tensor has {ndim} dimensions. "
                "Use coo, csf or a notation such as '(i, j, k) -> (i : dense, j : compressed, k : dense)'."
            )
        return _MATRICES[name]
    if ndim < 1:
        raise FormatError(
            f"Expected at least 1 dimension for the format {name}, but the tensor has none. Give no format."
        )
    return _coo(ndim) if name == "coo" else _compressed(ndim)


def default_levels(ndim: int) -> tuple[Level, ...]:
    """The levels of the default format for `ndim` dimensions: csr for a matrix, else all levels compressed.

    Raises FormatError if there are too many dimensions.
    """
    check_dimensions(ndim)
    return _MATRICES["csr"] if ndim == 2 else _compressed(ndim)


def _coo(ndim: int) -> tuple[Level, ...]:
    if ndim == 1:
        return _compressed(1)
    inner = (Level(SINGLETON, dim, unique=False) for dim in range(1, ndim - 1))
    return (Level(COMPRESSED, 0, unique=False), *inner, Level(SINGLETON, ndim - 1))


def _compressed(ndim: int) -> tuple[Level, ...]:
    return tuple(Level(COMPRESSED, dim) for dim in range(ndim))
