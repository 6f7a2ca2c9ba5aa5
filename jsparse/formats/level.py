"""One storage level of a format."""

from jsparse.base.dataclass import dataclass
from jsparse.errors import FormatError
from jsparse.formats.levels import LevelKind

__all__ = ["MOST_DIMENSIONS", "Dimension", "Level", "check_dimensions"]

MOST_DIMENSIONS = 64  # the limit of numpy's arrays and of the extension's layouts


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension expression. So far there is only one: the coordinate in dimension `dim` itself.

    MLIR's sparse encodings have others, such as `d0 floordiv 4` and `d0 mod 4`, for blocks.

    Raises FormatError for a negative dimension.
    """

    dim: int

    def __post_init__(self) -> None:
        if self.dim < 0:
            raise FormatError(f"Expected a level to store a dimension >= 0, but it stores dimension {self.dim}.")

    def __str__(self) -> str:
        return f"d{self.dim}"


@dataclass(frozen=True, slots=True, init=False)
class Level:
    """A storage level: its kind, the dimension that it stores, and whether coordinates are unique within their parent.

    Args:
        kind: the kind.
        stores: the expression of the dimensions whose values are the level's coordinates; a number stands for that
            dimension itself.
        unique: whether no coordinate repeats below one position of the level above.

    Raises FormatError for a negative dimension, and for a nonunique level whose kind cannot repeat coordinates.
    """

    kind: LevelKind
    stores: Dimension
    unique: bool

    def __init__(self, kind: LevelKind, stores: Dimension | int, unique: bool = True) -> None:
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "stores", stores if isinstance(stores, Dimension) else Dimension(stores))
        object.__setattr__(self, "unique", unique)
        self._check()

    def _check(self) -> None:
        if not self.unique and not self.kind.may_repeat:
            raise FormatError(
                f"Expected the {self.kind} level of dimension {self.dim} to be unique, because {self.kind} levels have "
                "each coordinate at most once, but it is nonunique. Leave nonunique out."
            )

    @property
    def dim(self) -> int:
        """The dimension that the level stores."""
        return self.stores.dim

    def __str__(self) -> str:
        return self.kind.name if self.unique else f"{self.kind}(nonunique)"


def check_dimensions(ndim: int) -> None:
    """Raise FormatError for more dimensions than a tensor may have."""
    if ndim > MOST_DIMENSIONS:
        raise FormatError(
            f"Expected a tensor of at most {MOST_DIMENSIONS} dimensions, the limit of numpy, but got {ndim:,}. "
            "Flatten some."
        )
