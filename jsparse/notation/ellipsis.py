"""Broadcasting in einsum: `...` becomes letters, and dimensions that broadcast get separate letters.

The dimensions of `...` are aligned at the right. A dimension of size 1 that broadcasts to a larger size gets a separate
index, which is summed over one element. If the result lacks `...`, the dimensions of `...` are summed, as in jax.numpy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_letters

from jsparse.errors import NotYetSupportedError, ShapeError, shorten

ELLIPSIS = "..."


def letters_of(ndim: int) -> str:
    """Return one letter for each dimension of a tensor. Raises NotYetSupportedError if there are too few letters."""
    if ndim > len(ascii_letters):
        raise NotYetSupportedError(
            f"einsum has {len(ascii_letters)} letters for indices, but a tensor has {ndim} dimensions. Use "
            "jsparse.evaluate, in which index names can have any length."
        )
    return ascii_letters[:ndim]


def without_ellipsis(
    text: str, terms: Sequence[str], result: str, shapes: Sequence[tuple[int, ...]]
) -> tuple[list[str], str]:
    """Replace `...` in the terms and the result by letters. `shapes` have to have the ranks of the terms.

    Raises:
        ShapeError: sizes that do not broadcast.
        NotYetSupportedError: no letters are left.
    """
    stretches = list[tuple[int, ...]]()  # the sizes of the dimensions that `...` denotes in each term
    for term, shape in zip(terms, shapes, strict=True):
        before, ellipsis, after = term.partition(ELLIPSIS)
        stretches.append(shape[len(before) : len(shape) - len(after)] if ellipsis else ())
    sizes = [1] * max(map(len, stretches), default=0)
    for stretch in stretches:
        for axis in range(-len(stretch), 0):
            size = stretch[axis]
            if 1 not in (size, sizes[axis]) and size != sizes[axis]:
                shown = shorten(", ".join(map(str, stretches)))
                raise ShapeError(
                    f"Expected the dimensions of '...' of '{shorten(text)}' to broadcast, aligned at the right, but "
                    f"operands have {shown} there: sizes {sizes[axis]} and {size} differ, and neither is 1."
                )
            sizes[axis] = size if sizes[axis] == 1 else sizes[axis]
    fresh = _fresh(text)
    common = [next(fresh) for _ in sizes]
    letters = [_names(stretch, sizes, common, fresh) for stretch in stretches]
    written = [term.replace(ELLIPSIS, names) for term, names in zip(terms, letters, strict=True)]
    return written, result.replace(ELLIPSIS, "".join(common))


def with_own_ones(text: str, terms: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> list[str]:
    """Give each dimension of size 1 a new letter if its letter denotes a larger size elsewhere. Returns new terms.

    A letter that occurs twice in a term stays, because it denotes a diagonal. Raises NotYetSupportedError if no letters
    are left.
    """
    largest: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, size in zip(term, shape, strict=True):
            largest[letter] = max(size, largest.get(letter, 1))
    fresh = _fresh(text + "".join(terms))
    return [
        "".join(
            next(fresh) if size == 1 < largest[letter] and term.count(letter) == 1 else letter
            for letter, size in zip(term, shape, strict=True)
        )
        for term, shape in zip(terms, shapes, strict=True)
    ]


def _names(stretch: Sequence[int], sizes: Sequence[int], common: Sequence[str], fresh: Iterator[str]) -> str:
    """Return letters for one operand's `...`: new letters for dimensions that broadcast, and letters of `common`."""
    start = len(sizes) - len(stretch)
    aligned = zip(stretch, sizes[start:], common[start:], strict=True)
    return "".join(letter if mine == size else next(fresh) for mine, size, letter in aligned)


def _fresh(text: str) -> Iterator[str]:
    yield from (letter for letter in ascii_letters if letter not in text)
    raise NotYetSupportedError(
        f"einsum has {len(ascii_letters)} letters for indices, but '{shorten(text)}' needs more, including those of "
        "'...'. Reshape the operands so that fewer dimensions broadcast."
    )
