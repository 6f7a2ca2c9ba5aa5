"""Checks that a result has numpy's values on the right pattern."""

from __future__ import annotations

from math import prod

import jax
import numpy as np
from programs.evaluation import Evaluation
from programs.program import Program, SparseOperand
from stored import closure

import jsparse
from jsparse import Format, Pattern

__all__ = ["check_assembled", "check_result", "check_structure", "empty_of"]


def check_result(program: Program | Evaluation, got: object) -> None:
    """Raise AssertionError unless `got` is the program's result."""
    out = program.out_format
    if isinstance(program, Evaluation) and out is None:
        assert isinstance(got, jsparse.SparseTensor) is program.is_sparse
    assert got.dtype == program.dtype
    if isinstance(got, jax.Array):
        assert got.shape == program.expected.shape
        np.testing.assert_array_equal(np.asarray(got), program.expected)
        return
    assert isinstance(got, jsparse.SparseTensor), type(got)
    assert out != "dense"
    if isinstance(out, SparseOperand):
        assert got.pattern == out.tensor().pattern
    elif isinstance(program, Evaluation) or program.has_new_pattern:
        check_assembled(got, program.expected, out, empty_of(program))
        check_structure(program, got.pattern)
        return
    else:
        _check_extended(program, got)
    coords, values = got.to_coords()
    np.testing.assert_array_equal(np.asarray(values), program.expected[tuple(coords)])


def check_assembled(got: jsparse.SparseTensor, want: np.ndarray, requested: str | None, empty: float = 0) -> None:
    """Raise AssertionError unless `got` has the elements of `want` on a valid pattern in the requested format, if any.

    `empty` is the value of elements that are not stored.
    """
    assert got.shape == want.shape
    assert requested is None or got.format == Format.of(requested, want.ndim), (got.format, requested)
    Pattern(got.shape, got.format, got.pattern.arrays)  # checks the index arrays
    coords, values = got.to_coords()
    rows = np.asarray(coords, np.int64)
    order = list(got.format.order)
    if order:
        numbers = np.ravel_multi_index(tuple(rows[order]), [want.shape[d] for d in order]) if want.size else rows[0]
        assert (np.diff(numbers) > 0).all(), "coordinates repeat or are out of order"
    np.testing.assert_array_equal(np.asarray(values), want[tuple(rows)])
    left = np.asarray(want != empty)
    left[tuple(rows)] = False
    assert not left.any(), f"not stored: {np.argwhere(left)[:5].tolist()}"


def empty_of(program: Program | Evaluation) -> float:
    """The result's value where no product has entries."""
    return program.ring.zero(program.dtype.name) if isinstance(program, Program) else 0


def check_structure(program: Program | Evaluation, pattern: Pattern) -> None:
    """Raise AssertionError unless a pattern stores exactly the elements of `program.reached` and those that its format
    adds."""
    stored = np.zeros(program.reached.shape, bool)
    stored[tuple(pattern.to_coords())] = True
    np.testing.assert_array_equal(stored, closure(program.reached, pattern.format))


def _check_extended(program: Program, got: jsparse.SparseTensor) -> None:
    """Check that a result has the levels of an operand, followed by dense levels for added indices."""
    kept = program.kept
    term, operand = next(
        (t, x)
        for t, x in zip(program.terms, program.operands, strict=True)
        if isinstance(x, SparseOperand) and set(t) <= set(kept)
    )
    levels = Format.of(operand.format, len(term)).levels
    found = [(kept[level.dim], level.kind, level.unique) for level in got.format.levels[: len(term)]]
    assert found == [(term[level.dim], level.kind, level.unique) for level in levels]
    added = [v for v in kept if v not in term]
    assert [kept[level.dim] for level in got.format.levels[len(term) :]] == added
    stored = operand.tensor().pattern.to_coords()
    slots = set(zip(*(got.pattern.to_coords()[kept.index(v)].tolist() for v in term), strict=True))
    assert got.nse == 0 or slots == set(zip(*stored.tolist(), strict=True))
    assert got.nse == stored.shape[1] * prod(got.shape[kept.index(v)] for v in added)
