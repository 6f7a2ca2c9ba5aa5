"""One storage level of a format."""

from dataclasses import dataclass

from jsparse.errors import FormatError
from jsparse.formats.levels import LevelKind

__all__ = ["MOST_DIMENSIONS", "Level", "check_dimensions"]

MOST_DIMENSIONS = 64  # the limit of numpy's arrays and of the extension's layouts


@dataclass(frozen=True, slots=True)
class Level:
    """A storage level: its kind, the dimension it stores, and whether its coordinates are unique within their parent.

    Raises FormatError for a negative dimension, and for a nonunique level whose kind cannot repeat coordinates.
    """

    kind: LevelKind
    dim: int
    unique: bool = True

    def __post_init__(self) -> None:
        if self.dim < 0:
            raise FormatError(f"Expected a level to store a dimension >= 0, but it stores dimension {self.dim}.")
        if not self.unique and not self.kind.may_repeat:
            raise FormatError(
                f"Expected the {self.kind} level of dimension {self.dim} to be unique, because {self.kind} levels have "
                "each coordinate at most once, but it is nonunique. Leave nonunique out."
            )

    def __str__(self) -> str:
        return self.kind.name if self.unique else f"{self.kind}(nonunique)"


def check_dimensions(ndim: int) -> None:
    """Raise FormatError for more dimensions than a tensor may have."""
    if ndim > MOST_DIMENSIONS:
        raise FormatError(
            f"Expected a tensor of at most {MOST_DIMENSIONS} dimensions, the limit of numpy, but got {ndim:,}. "
            "Flatten some."
        )
