"""Where a result is stored: what is asked for, else what the rules say."""

from __future__ import annotations

from collections.abc import Sequence

from jsparse.errors import PatternError
from jsparse.formats import Format
from jsparse.planning.output.rules import Stored, result_of
from jsparse.planning.request import NEW_PATTERN, OutputRequest
from jsparse.planning.signature import PatternRef
from jsparse.planning.typed_product import TypedProduct

__all__ = ["resolve_output"]


def resolve_output(text: str, products: Sequence[TypedProduct], out: OutputRequest, nse: int | None) -> Stored | Format:
    """Where a sum of products is stored: on a pattern, a new one (in a format, if one is asked for), or nowhere.

    Raises FormatError for `out`, PatternError if an operand's pattern is larger than `nse`.
    """
    if isinstance(out, PatternRef):
        return out
    if out is NEW_PATTERN:
        return NEW_PATTERN
    format = None if out is None else Format.of(out, len(products[0].kept))
    if format is not None and format.is_dense:
        return None
    found = result_of(products)
    if format is not None and (not isinstance(found, PatternRef) or found.pattern.format != format):
        return format
    if nse is not None and isinstance(found, PatternRef) and found.pattern.nse > nse:
        raise PatternError(
            f"Expected at most nse={nse:,} entries in the result of '{text}', but it has the {found.pattern.nse:,} "
            f"of an operand."
        )
    return found
