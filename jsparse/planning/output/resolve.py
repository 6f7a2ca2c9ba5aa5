"""The resolved output of a program: the caller's request if there is one, else what the rules infer."""

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
    """Resolve the output of a sum of products: an existing pattern, a new one (or its format), or None if dense.

    Raises FormatError if `out` is no format of the result's rank, PatternError if an operand's pattern exceeds `nse`.
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
            f"Expected at most nse={nse:,} entries in the result of '{text}', but it lies on the pattern of an operand "
            f"with nse={found.pattern.nse:,}. Pass nse={found.pattern.nse} or more, or leave it out."
        )
    return found
