"""The pattern of a sparse result that lies on none of its operands'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jsparse.errors import PatternError
from jsparse.formats import DynamicType, Format, Pattern
from jsparse.planning.output.inferred_format import inferred_format
from jsparse.planning.output.rules import Stored, room_for
from jsparse.planning.output.symbolic_phase import symbolic_phase
from jsparse.planning.signature import PatternRef
from jsparse.planning.typed_product import TypedProduct, WalkKey
from jsparse.primitives.assembly import OutputPattern
from jsparse.primitives.places import listed_arrays
from jsparse.primitives.spec import PatternAccess
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type

__all__ = ["Assembly", "assembled", "new_format", "provisional_output"]

NEW = -1  # the group of a dynamic pattern that is made on the way


@dataclass(frozen=True, slots=True)
class Assembly:
    """How the pattern of a result is found: now, or by the program.

    Attributes:
        sources: for each pattern that is walked, the operand that it belongs to; None for a static one.
    """

    text: str
    reached: OutputPattern
    sources: tuple[int | None, ...]
    result: Pattern | DynamicType

    def index(self, operands: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The index arrays of each pattern that is walked; none of a static one."""
        return [() if place is None else operands[place].pattern.operands() for place in self.sources]

    def pattern(self, operands: Sequence[Any], arrays: Sequence[Any] | None = None) -> DynamicPattern | None:
        """The pattern, if it is dynamic, of these operands' patterns; `arrays` are its index arrays if they are known.
        If one of the operands overflowed, so has the result.

        Raises PatternError if everything is known and there is no room.
        """
        if isinstance(self.result, Pattern):
            return None
        if arrays is None:
            arrays = listed_arrays(self.reached, self.index(operands), self.result)
        made = DynamicPattern(self.result, tuple(arrays))
        self._check_room(made)
        sources = [operands[place].pattern for place in self.sources if place is not None]
        for source in {id(pattern): pattern for pattern in sources}.values():
            if not _known(source.overflowed, False):
                made = made.overflowed_with(source)
        return made

    def _check_room(self, made: DynamicPattern) -> None:
        if _known(made.overflowed, True):
            raise PatternError(
                f"Expected at most nse={made.nse:,} entries in the result of '{self.text}', but there are "
                f"{int(np.max(made.count)):,}. Pass nse={int(np.max(made.count))} or more."
            )


def _known(overflowed: Any, value: bool) -> bool:
    """Whether it is known now that some pattern of a batch overflowed (or that none did)."""
    return not isinstance(overflowed, jax.core.Tracer) and bool(np.any(overflowed)) is value


def assembled(
    text: str, products: Sequence[TypedProduct], places: Sequence[Sequence[int]], format: Format | None, nse: int | None
) -> tuple[PatternRef, Assembly]:
    """Where a sum of products is stored, on a pattern of its own: known now, or found in the program.

    Args:
        places: for each product, the numbers of its operands among all.
        format: asked for; None for the levels that `planning.output.inferred_format` chooses.
        nse: the room; of a result known now, a bound that is checked.

    Raises PatternError if there is no room, or no bound is known for a dynamic result.
    """
    reached, sources = _reached(products, places)
    if all(isinstance(walk.pattern, Pattern) for walk in reached.walks):
        pattern = symbolic_phase(products, reached, format)
        if nse is not None and pattern.nse > nse:
            raise PatternError(
                f"Expected at most nse={nse:,} entries in the result of '{text}', but there are {pattern.nse:,}."
            )
        return PatternRef(pattern), Assembly(text, reached, sources, pattern)
    type_ = _dynamic(text, products, format, nse)
    return PatternRef(type_, NEW), Assembly(text, reached, sources, type_)


def provisional_output(
    text: str, products: Sequence[TypedProduct], output: Stored | Format, nse: int | None
) -> PatternRef | None:
    """What a sum will be stored on, as far as that matters for how its dynamic patterns are walked."""
    if output is None or isinstance(output, PatternRef):
        return output
    if all(isinstance(walk.pattern, Pattern) for product in products for walk in product.walks.values()):
        return None
    return PatternRef(_dynamic(text, products, output if isinstance(output, Format) else None, nse), NEW)


def new_format(place: PatternRef | None) -> Format | None:
    """The format of a dynamic pattern that is made on the way; None for any other place."""
    return None if place is None or place.group != NEW else place.pattern.format


def _dynamic(text: str, products: Sequence[TypedProduct], format: Format | None, nse: int | None) -> DynamicType:
    shape = products[0].shape
    room = room_for(text, products) if nse is None else nse
    if format is None:
        format = inferred_format(products, room)
    return dynamic_type(shape, format, room if nse is not None else _with_blocks(room, shape, format, products))


def _reached(
    products: Sequence[TypedProduct], places: Sequence[Sequence[int]]
) -> tuple[OutputPattern, tuple[int | None, ...]]:
    """What a sum of products reaches, and for each pattern the operand it is taken from. A term with a sparse operand
    that stores nothing, since a dimension is 0, is left out."""
    walks: dict[WalkKey, tuple[PatternAccess, int | None]] = {}
    terms = []
    for product, of in zip(products, places, strict=True):
        if any(x.stored is not None and 0 in x.shape for x in product.operands):
            continue
        for key, walk in product.walks.items():
            known = walks.get(key)
            if known is None or len(walk.derived) > len(known[0].derived):
                walks[key] = walk, _source(product, of, key, walk)
        terms.append(tuple(list(walks).index(key) for key in product.walks))
    kept, sizes = products[0].kept, products[0].sizes
    taken = tuple(walk for walk, _ in walks.values())
    named = dict.fromkeys((*kept, *(v for walk in taken for v in walk.indices)))
    reached = OutputPattern(kept, taken, tuple(terms), tuple((v, sizes[v]) for v in named))
    return reached, tuple(source for _, source in walks.values())


def _source(product: TypedProduct, places: Sequence[int], key: WalkKey, walk: PatternAccess) -> int | None:
    """The operand that lies on a dynamic pattern, with as many transposed indices."""
    pattern, group, _ = key
    if isinstance(pattern, Pattern):
        return None
    cores = ((place, x.core) for place, x in zip(places, product.operands, strict=True))
    wanted = (pattern, group, walk.derived)
    return next(
        place for place, core in cores if core is not None and (core.pattern, core.group, core.derived) == wanted
    )


def _with_blocks(room: int, shape: tuple[int, ...], format: Format, products: Sequence[TypedProduct]) -> int:
    """Slots for `room` entries, each of which may fill a block of its own in levels that are dense."""
    walked = {v for product in products for walk in product.walks.values() for v in walk.indices}
    for level in format.levels[format.ndim - format.trailing_dense :]:
        room *= shape[level.dim] if products[0].kept[level.dim] in walked else 1
    return room
