"""Where a result is stored: what is asked for, else what the rules say; then the pattern itself."""

from __future__ import annotations

from collections.abc import Sequence

from jsparse.errors import PatternError
from jsparse.formats import Format
from jsparse.planning.output.pattern import Assembly, assembled
from jsparse.planning.output.rules import Stored, result_of
from jsparse.planning.request import NEW_PATTERN, OutputRequest
from jsparse.planning.signature import StoredOn
from jsparse.planning.typed_product import Product

__all__ = ["asked_place", "result_place"]


def asked_place(text: str, products: Sequence[Product], out: OutputRequest, nse: int | None) -> Stored | Format:
    """Where a sum of products is stored: on a pattern, a new one (in a format, if one is asked for), or nowhere.

    Raises FormatError for `out`, PatternError if an operand's pattern is larger than `nse`.
    """
    if isinstance(out, StoredOn):
        return out
    if out is NEW_PATTERN:
        return NEW_PATTERN
    format = None if out is None else Format.of(out, len(products[0].kept))
    if format is not None and format.is_dense:
        return None
    found = result_of(products)
    if format is not None and (not isinstance(found, StoredOn) or found.pattern.format != format):
        return format
    if nse is not None and isinstance(found, StoredOn) and found.pattern.nse > nse:
        raise PatternError(
            f"Expected at most nse={nse:,} entries in the result of '{text}', but it has the {found.pattern.nse:,} "
            f"of an operand."
        )
    return found


def result_place(
    text: str, products: Sequence[Product], places: Sequence[Sequence[int]], asked: Stored | Format, nse: int | None
) -> tuple[StoredOn | None, Assembly | None]:
    """What the result is stored on, None if it is dense; and how that is found, if it is a pattern of its own.

    Raises PatternError as `planning.output.pattern.assembled` does.
    """
    if isinstance(asked, StoredOn) or asked is None:
        return asked, None
    return assembled(text, products, places, asked if isinstance(asked, Format) else None, nse)
