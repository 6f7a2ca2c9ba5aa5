"""One storage level of a format."""

import enum
from dataclasses import dataclass

from jsparse.errors import FormatError

__all__ = ["MOST_DIMENSIONS", "Level", "LevelKind", "check_dimensions"]

MOST_DIMENSIONS = 64  # as many as numpy's arrays have, and the extension's layouts


class LevelKind(enum.Enum):
    """What a level stores: nothing, pointers and coordinates, or coordinates only."""

    DENSE = "dense"
    COMPRESSED = "compressed"
    SINGLETON = "singleton"


@dataclass(frozen=True, slots=True)
class Level:
    """A storage level: its kind, the dimension it stores, and whether its coordinates are unique within their parent.

    Raises FormatError for a negative dimension and for a nonunique dense level.
    """

    kind: LevelKind
    dim: int
    unique: bool = True

    def __post_init__(self) -> None:
        if self.dim < 0:
            raise FormatError(f"Expected a level to store a dimension >= 0, but it stores dimension {self.dim}.")
        if self.kind is LevelKind.DENSE and not self.unique:
            raise FormatError(
                f"Expected the dense level of dimension {self.dim} to be unique, but it is nonunique: "
                "a dense level has each coordinate exactly once. Leave nonunique out."
            )

    def __str__(self) -> str:
        return self.kind.value if self.unique else f"{self.kind.value}(nonunique)"


def check_dimensions(ndim: int) -> None:
    """Raises FormatError for more dimensions than a tensor may have."""
    if ndim > MOST_DIMENSIONS:
        raise FormatError(
            f"Expected a tensor of at most {MOST_DIMENSIONS} dimensions, as arrays have, but got {ndim:,}. Join some."
        )
