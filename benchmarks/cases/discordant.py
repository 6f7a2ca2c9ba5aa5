"""Products of dynamic matrices in every format and spelling: discordant operands are sorted anew by the program.

The first candidate is the best spelling. The others compute the same product of matrices that are stored, and written,
in another order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import product
from operator import matmul
from typing import Any

import jax
import scipy.sparse as sp
from graphs import uniform
from harness import Case, Step
from numpy.typing import NDArray

import jsparse

SIZE, STORED = 4_000, 40_000
FORMATS = ("csr", "csc", "coo", "dcsr", "dcsc")
LETTERS = "ijkl"


def cases() -> list[Case]:
    """The cases: products of two and of three matrices, with dense and sparse results."""
    mixed = [tuple(FORMATS[(n + shift) % len(FORMATS)] for n in range(3)) for shift in range(len(FORMATS))]
    return [
        _case(f"discordant_{count}_{out}", count, formats, out)
        for count, formats in ((2, list(product(FORMATS, FORMATS))), (3, mixed))
        for out in ("csr", "dense")
    ]


def _case(name: str, count: int, formats: Sequence[tuple[str, ...]], out: str) -> Case:
    terms = [LETTERS[n : n + 2] for n in range(count)]
    best = ("csr",) * count
    texts = [",".join(spelled) for spelled in product(*((term, term[::-1]) for term in terms))]
    found: dict[str, Callable[[], Step]] = {
        _name(texts[0], best): lambda: _ours(texts[0], best, out),
        "scipy": lambda: _scipy(count, out),
    }
    for text, chosen in product(texts, formats):
        found[_name(text, chosen)] = lambda text=text, chosen=chosen: _ours(text, chosen, out)
    return Case(
        name=name,
        description=f"{count} dynamic matrices, {SIZE:,} x {SIZE:,}, {STORED:,} entries each, f32; result {out}",
        candidates=found,
        expected=lambda: _expected(count, out),
        rounds=5,
    )


def _name(text: str, formats: Sequence[str]) -> str:
    return f"{text} {' '.join(formats)}"


@functools.cache
def _matrices(count: int) -> list[sp.csr_array]:
    return [uniform((SIZE, SIZE), STORED, seed=n) for n in range(count)]


@functools.cache
def _expected(count: int, out: str) -> NDArray[Any]:
    found = functools.reduce(matmul, _matrices(count))
    found.sort_indices()
    return found.toarray() if out == "dense" else found.data


def _ours(text: str, formats: Sequence[str], out: str) -> Step:
    terms = text.split(",")
    stored = [x if term in LETTERS else x.T for x, term in zip(_matrices(len(terms)), terms, strict=True)]
    operands = [jsparse.asarray(x, format).dynamic() for x, format in zip(stored, formats, strict=True)]
    room = None if out == "dense" else len(_expected(len(terms), out))
    einsum = f"{text}->{LETTERS[0]}{LETTERS[len(terms)]}"
    compute = jax.jit(lambda *operands: jsparse.einsum(einsum, *operands, out_format=out, nse=room))

    def step() -> Any:
        result = jax.block_until_ready(compute(*operands))
        return result if out == "dense" else result.values

    return step


def _scipy(count: int, out: str) -> Step:
    operands = _matrices(count)

    def step() -> Any:
        result = functools.reduce(matmul, operands)
        return result.toarray() if out == "dense" else _Sparse(result)

    return step


class _Sparse:
    """A result whose entries are sorted only when they are compared, which is not timed."""

    def __init__(self, result: sp.csr_array) -> None:
        self.result = result

    def __array__(self, *args: Any, **kwargs: Any) -> NDArray[Any]:
        ordered = self.result.copy()
        ordered.sort_indices()
        return ordered.data
