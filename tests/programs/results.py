"""Checks that a result has numpy's values on the right pattern."""

from __future__ import annotations

from math import prod

import jax
import numpy as np
from programs.composed import ComposedOperand, in_use, is_same_format, stored_in
from programs.compositions import has_composed
from programs.evaluation import Evaluation
from programs.program import Program, SparseOperand

import jsparse
from jsparse import Format, Pattern
from jsparse.tensor.composed import ComposedTensor

__all__ = ["check_assembled", "check_padding", "check_result", "check_structure", "empty_of"]


def check_result(program: Program | Evaluation, got: object) -> None:
    """Raise AssertionError unless `got` is the program's result."""
    out = program.out_format
    if out is None and (isinstance(program, Evaluation) or has_composed(program)):
        assert isinstance(got, jsparse.SparseTensor) is program.is_sparse
    assert got.dtype == program.dtype
    if isinstance(got, jax.Array):
        assert got.shape == program.expected.shape
        np.testing.assert_array_equal(np.asarray(got), program.expected)
        return
    assert isinstance(got, jsparse.SparseTensor), type(got)
    assert out != "dense"
    check_padding(program, got)
    if isinstance(out, SparseOperand):
        assert got.pattern == out.tensor().pattern
    elif isinstance(program, Evaluation) or program.has_new_pattern or has_composed(program):
        check_assembled(got, program.expected, out, empty_of(program))
        check_structure(program, got)
        if isinstance(program, Program) and out is None and program.ring.is_linear:
            _check_composition(program, got)
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
    assert requested is None or is_same_format(got.format, requested, want.ndim), (got.format, requested)
    if not isinstance(got, ComposedTensor):
        Pattern(got.shape, got.format, got.pattern.arrays)  # checks the index arrays
    coords, values = got.to_coords()
    rows = np.asarray(coords, np.int64)
    order = list(range(want.ndim) if isinstance(got, ComposedTensor) else got.format.order)
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


def check_structure(program: Program | Evaluation, got: jsparse.SparseTensor | Pattern) -> None:
    """Raise AssertionError unless a result or a pattern stores exactly the elements of `program.reached` and those
    that its format adds."""
    stored = np.zeros(program.reached.shape, bool)
    coords = got.to_coords() if isinstance(got, Pattern) else got.to_coords()[0]
    stored[tuple(coords)] = True
    formats = [part.format for part in got.pattern.parts] if isinstance(got, ComposedTensor) else [got.format]
    want = program.reached if len(formats) > 1 else stored_in(program.reached, formats[0])
    np.testing.assert_array_equal(stored, want)


def check_padding(program: Program | Evaluation, got: jsparse.SparseTensor) -> None:
    """Raise AssertionError unless the values in the padding of a static result are 0, or those of empty sums."""
    if isinstance(got, ComposedTensor) and empty_of(program) == 0:
        padding = np.asarray(got.values)[~in_use(got.pattern)]
        assert not padding.any(), f"values in padding: {padding}"


def _check_composition(program: Program, got: jsparse.SparseTensor) -> None:
    """Check that a result is on the composition of its operands if all sparse ones are on one, with its indices.

    A repeated index is an exception: operands are converted first.
    """
    if any(len(set(term)) < len(term) for term in program.terms):
        return
    named = zip(program.terms, program.operands, strict=True)
    sparse = [(term, x) for term, x in named if isinstance(x, SparseOperand)]
    if not all(isinstance(x, ComposedOperand) and sorted(term) == sorted(program.kept) for term, x in sparse):
        return
    axes = [[term.index(v) for v in program.kept] for term, _ in sparse]
    patterns = {x.tensor().pattern.transposed(own) for own, (_, x) in zip(axes, sparse, strict=True)}
    assert len(patterns) > 1 or got.pattern in patterns, got


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
