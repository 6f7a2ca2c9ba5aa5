"""Replaces some sparse operands of a random program, and some formats of results, by composed ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TypeVar

import numpy as np
from programs.composed import PARTS, ComposedOperand, are_composed
from programs.evaluation import Evaluation
from programs.indirection import Indirect
from programs.program import DenseOperand, Program, SparseOperand

__all__ = ["has_composed", "with_compositions"]

P = TypeVar("P", bound=Program | Evaluation)

SHARE = 0.17  # of operands of two and three dimensions
AGAIN = 0.8  # how often another operand with the same entries and indices has the same composition
OF_RESULTS = 0.12  # the share of composed formats among those of results that may have any format
SLOTS = ("ell", "group_coo(2)", "hyb")
FORMATS = {
    2: (
        "bsr(2, 2)",
        "bsr(2, 3)",
        "bsr(3, 1)",
        "dbsr(2, 2)",
        "block_group_coo(2, 2, 2)",
        "hyb(2)",
        "(i, j) -> (i floordiv 2 : dense, j : compressed, i mod 2 : dense)",
        "(i, j) -> (j floordiv 4 : compressed, i : compressed, j floordiv 2 mod 2 : dense, j mod 2 : dense)",
        "(i, j) -> (i floordiv 2 : compressed, j : compressed, i mod 2 : compressed)",
        *SLOTS,
    ),
    3: (
        "(i, j, k) -> (i : compressed, j floordiv 2 : compressed, k : compressed, j mod 2 : dense)",
        "(i, j, k) -> (i floordiv 2 : dense, j : compressed, k floordiv 3 : compressed, "
        "i mod 2 : dense, k mod 3 : dense)",
        *SLOTS,
    ),
}


def with_compositions(program: P) -> P:
    """The program with some of its operands composed. The choice does not affect the other random choices."""
    return _Compositions(program).applied()


def has_composed(program: Program | Evaluation) -> bool:
    """Whether an operand or the result is composed."""
    operands = program.operands if isinstance(program, Program) else [x for _, x in program.tensors]
    return are_composed(operands, program.out_format)


class _Compositions:
    def __init__(self, program: Program | Evaluation) -> None:
        self.program, self.rng = program, np.random.default_rng((*program.seed, 6))
        self.chosen: dict[object, tuple[str, list[str]] | None] = {}

    def applied(self) -> Program | Evaluation:
        """The program with some composed operands, and perhaps a composed result."""
        program = self.program
        if isinstance(program, Program):
            named = zip(program.terms, program.operands, strict=True)
            operands = tuple(self.replaced(list(term), x) for term, x in named)
            return self.with_result(replace(program, operands=operands), list(program.kept))
        indices = {leaf.name: leaf.indices for _, product in program.expression.expanded() for leaf in product}
        tensors = tuple(
            (name, self.replaced(list(map(str, indices[name])), x) if name in indices else x)
            for name, x in program.tensors
        )
        return self.with_result(replace(program, tensors=tensors), list(map(str, program.target.indices)))

    def with_result(self, program: Program | Evaluation, kept: list[str]) -> Program | Evaluation:
        """The program with perhaps another `out_format`."""
        out = program.out_format
        if isinstance(out, SparseOperand):
            return replace(program, out_format=self.replaced(kept, out, spoiled=False))
        has_before = isinstance(program, Indirect) and program.before is not None
        if out == "dense" or len(kept) not in FORMATS or has_before or self.rng.random() >= OF_RESULTS:
            return program
        given = {"has_new_pattern": True} if isinstance(program, Program) else {}
        # Blocks are filled with 0, so formats with blocks are refused by semirings with another zero.
        fills = isinstance(program, Evaluation) or program.ring.zero("float32") == 0
        format = self.format(len(kept)) if fills else str(self.rng.choice(SLOTS))
        return replace(program, out_format=format, **given)

    def replaced(
        self, term: list[str], x: SparseOperand | DenseOperand, spoiled: bool = True
    ) -> SparseOperand | DenseOperand:
        """The operand, or a composed one with the same entries. `spoiled`: values in padding may be NaN."""
        if not isinstance(x, SparseOperand) or len(x.shape) not in FORMATS:
            return x
        key = _key(term, x)
        if key in self.chosen and self.rng.random() < AGAIN:
            choice = self.chosen[key]
        else:
            choice = self.chosen[key] = self.choice(term)
        if choice is None:
            return x
        name, order = choice
        left = list(range(len(term)))
        axes = [left.pop(next(n for n, axis in enumerate(left) if term[axis] == v)) for v in order]
        given = {field.name: getattr(x, field.name) for field in fields(x)}
        is_float = "float" in x.dtype or "complex" in x.dtype
        is_spoiled = spoiled and is_float and bool(self.rng.random() < 0.6)
        return ComposedOperand(**given, composed=name, axes=tuple(axes), is_spoiled=is_spoiled)

    def choice(self, term: Sequence[str]) -> tuple[str, list[str]] | None:
        """A format, and the order of indices for which it is written; None for an operand that stays as it is."""
        if self.rng.random() >= SHARE:
            return None
        has_parts = len(term) == 2 and self.rng.random() < 0.12
        order = self.rng.permutation(len(term)) if self.rng.random() < 0.4 else range(len(term))
        return PARTS if has_parts else self.format(len(term)), [term[n] for n in order]

    def format(self, ndim: int) -> str:
        """The name of a composed format."""
        return FORMATS[ndim][int(self.rng.integers(len(FORMATS[ndim])))]


def _key(term: list[str], x: SparseOperand) -> object:
    """The indices and the entries, which do not depend on the order of dimensions; unique if an index is repeated."""
    if len(set(term)) < len(term):
        return object()
    order = sorted(range(len(term)), key=lambda n: term[n])
    rows = frozenset(zip(*(x.coords[n] for n in order), strict=True))
    return tuple(term[n] for n in order), tuple(x.shape[n] for n in order), rows
