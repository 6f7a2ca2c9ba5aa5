"""Random valid programs over everything that einsum accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from string import ascii_lowercase

import numpy as np
from programs.compositions import with_compositions
from programs.draw import Draw
from programs.program import DenseOperand, Program, SparseOperand

from jsparse.compiler.semiring import Semiring

__all__ = ["random_plain", "random_program"]

SPACE = 40_000  # the most points of the iteration space: the reference visits all of them
LARGEST = (4, 4, 4, 4, 4, 3, 2)  # the largest value for a number of operands: float32 represents all sums
LARGER = 20  # the largest value for one or two operands of narrow dtypes, whose sums are rounded or wrap around
FAMILIES = ("one", "kept", "sampled", "pair", "several")
OTHERS = 0.2  # the share of programs with another semiring
FAMILY_WEIGHTS = (0.3, 0.06, 0.09, 0.07, 0.48)


def random_program(*seed: int) -> Program:
    """The program of a seed, which is the same in every process. Some of its operands may be composed."""
    return with_compositions(random_plain(*seed))


def random_plain(*seed: int) -> Program:
    """The program of a seed, before any operand is composed."""
    draw = _Product(seed)
    family = draw.choice(FAMILIES, FAMILY_WEIGHTS)
    return draw.several() if family == "several" else draw.on_one_pattern(family)


class _Product(Draw):
    def on_one_pattern(self, family: str) -> Program:
        """A program on one pattern. In a `pair` two operands are on it; if `kept` or `sampled`, the result is."""
        order = self.choice((1, 2, 3, 4, 5, 6), (0.17, 0.39, 0.22, 0.12, 0.06, 0.04))
        stored = self.indices(order, distinct=family in ("kept", "sampled"))
        dense = self.dense_terms(stored, family)
        self.draw_sizes(stored, "".join(dense), SPACE)
        self.draw_largest(len(dense) + (family != "sampled") + (family == "pair"))
        sparse = self.sparse(stored)
        terms: list[str] = [] if family == "sampled" else [stored]
        operands: list[SparseOperand | DenseOperand] = [] if family == "sampled" else [sparse]
        if family == "pair":
            term, operand = self.transposed(stored, sparse)
            terms.append(term)
            operands.append(operand)
        for term in dense:
            terms.append(term)
            operands.append(self.dense(term))
        if family in ("kept", "sampled"):
            kept, out = self.transposed(stored, sparse)
            return self.finished(terms, operands, kept, out)
        kept = self.kept(terms)
        return self.finished(terms, operands, kept, *self.out_format([stored], kept, several=False))

    def several(self) -> Program:
        """A program of two to six operands, at least two of them sparse, mostly on different patterns."""
        count = self.choice((2, 3, 4, 5, 6), (0.4, 0.27, 0.17, 0.1, 0.06))
        self.draw_largest(count)
        letters = list(self.rng.permutation(list(ascii_lowercase[:8])))
        shared = self.choice((1, 2, 3, 4, 5, 6), (0.06, 0.22, 0.3, 0.22, 0.12, 0.08))
        is_sparse = [n < 2 or self.chance(0.45) for n in range(count)]
        terms = [self.term(letters, shared) if s else self.dense_term(letters[:shared]) for s in is_sparse]
        stored = "".join(term for term, s in zip(terms, is_sparse, strict=True) if s)
        self.draw_sizes(stored, "".join(terms), SPACE)
        operands: list[SparseOperand | DenseOperand] = []
        for term, s in zip(terms, is_sparse, strict=True):
            operands.append(self.on_some_pattern(term, operands) if s else self.dense(term))
        kept = self.kept(terms)
        if kept and self.chance(0.4):
            return self.finished(terms, operands, *self.given_result(kept, terms, operands))
        sparse_terms = [term for term, s in zip(terms, is_sparse, strict=True) if s]
        return self.finished(terms, operands, kept, *self.out_format(sparse_terms, kept, several=True))

    def draw_largest(self, operands: int) -> None:
        """Choose the largest magnitude of values."""
        is_narrow = self.base in ("bfloat16", "float16", "int8", "int16", "uint8", "uint16")
        self.largest = LARGER if operands <= 2 and is_narrow else LARGEST[operands]

    def term(self, letters: Sequence[str], shared: int) -> str:
        """The indices of a sparse operand, mostly from the first `shared` letters, so that operands share indices.

        A scalar has none.
        """
        order = self.choice((1, 2, 3, 4, 5, 6, 0), (0.2, 0.45, 0.2, 0.08, 0.03, 0.02, 0.02))
        left = list(self.rng.permutation(list(letters[: max(shared, order)])))
        found: list[str] = []
        for _ in range(order):
            repeat = bool(found) and (not left or self.chance(0.06))
            found.append(self.choice(found) if repeat else left.pop())
        return "".join(found)

    def dense_term(self, letters: Sequence[str]) -> str:
        """The indices of a dense operand, perhaps none, and perhaps some that sparse operands lack."""
        added = [v for v in ascii_lowercase[8:10] if self.chance(0.25)]
        chosen = [v for v in letters if self.chance(0.4)][:4] + added
        chosen += [self.choice(chosen)] if chosen and self.chance(0.08) else []
        return "".join(self.rng.permutation(chosen)) if chosen else ""

    def on_some_pattern(self, term: str, others: Sequence[SparseOperand | DenseOperand]) -> SparseOperand:
        """A sparse operand. Sometimes it is on the pattern of another operand, with other indices."""
        same = [x for x in others if isinstance(x, SparseOperand) and x.shape == self.shape(term)]
        if same and self.chance(0.3):
            operand = self.choice(same)
            dtype = self.dtype()
            return replace(operand, values=self.values(len(operand.values), dtype), dtype=dtype)
        return self.sparse(term)

    def given_result(
        self, kept: str, terms: Sequence[str], operands: Sequence[SparseOperand | DenseOperand]
    ) -> tuple[str, SparseOperand]:
        """The indices and the pattern of a result on a given pattern, which is perhaps an operand's."""
        named = [
            (term, x)
            for term, x in zip(terms, operands, strict=True)
            if isinstance(x, SparseOperand) and len(set(term)) == len(term)
        ]
        if named and self.chance(0.35):
            return self.transposed(*self.choice(named))
        return kept, self.sparse(kept)

    def finished(
        self, terms: list[str], operands: list, kept: str, out: SparseOperand | str | None, new: bool = False
    ) -> Program:
        """The program with shuffled operands. The result's indices are explicit, or implicit if possible."""
        shuffled = self.rng.permutation(len(terms))
        terms, operands = [terms[n] for n in shuffled], [operands[n] for n in shuffled]
        implied = kept == _implicit(terms) and self.chance(0.3)
        text = ",".join(terms) + ("" if implied else "->" + kept)
        drawn = Program(self.seed, text, tuple(operands), out, new)
        return replace(drawn, semiring=_semiring(drawn))

    def indices(self, order: int, distinct: bool) -> str:
        """The indices of the only sparse operand."""
        letters = list(self.rng.permutation(list(ascii_lowercase[:8])))
        found: list[str] = []
        for _ in range(order):
            repeat = found and not distinct and self.chance(0.12)
            found.append(self.choice(found) if repeat else letters.pop())
        return "".join(found)

    def dense_terms(self, stored: str, family: str) -> list[str]:
        """The indices of the dense operands of a program on one pattern."""
        counts = {
            "one": (0.25, 0.65, 0.1),
            "kept": (0.1, 0.75, 0.15),
            "sampled": (0, 0.15, 0.85),
            "pair": (0.7, 0.3, 0),
        }
        count = self.choice((0, 1, 2), counts[family])
        added = list(ascii_lowercase[8:11])[: self.choice((0, 1, 2), (0.4, 0.45, 0.15))]
        terms = []
        for _ in range(count):
            chosen = [v for v in dict.fromkeys(stored) if self.chance(0.5)]
            chosen += [v for v in added if self.chance(0.75)]
            chosen += [self.choice(chosen)] if chosen and self.chance(0.08) else []
            chosen = [] if self.chance(0.05) else chosen
            terms.append("".join(self.rng.permutation(chosen)) if chosen else "")
        if family == "sampled":  # the result's indices must belong to an operand
            for v in stored:
                terms[int(self.rng.integers(count))] += v if v not in "".join(terms) else ""
        return terms

    def kept(self, terms: Sequence[str]) -> str:
        """The indices of the result."""
        if self.chance(0.1):
            return _implicit(terms)
        everything = list(dict.fromkeys("".join(terms)))
        share = self.choice((0.0, 0.4, 0.7, 1.0), (0.15, 0.4, 0.3, 0.15))
        return "".join(self.rng.permutation([v for v in everything if self.chance(share)] or [""]))

    def out_format(self, sparse: Sequence[str], kept: str, several: bool) -> tuple[str | None, bool]:
        """`out_format` of a result that is on no given pattern, and whether the result has a new pattern."""
        if not _unassembled(sparse, kept, several):
            if kept and self.chance(0.08):
                return self.format(len(kept), any_entries=True).notation, True
            return ("dense" if self.chance(0.3) else None), False
        out = self.assembled(len(kept))
        return out, out != "dense"


def _semiring(program: Program) -> str | Semiring:
    """A semiring, mostly plus_times. The choice does not affect the other random choices."""
    rng = np.random.default_rng((*program.seed, 4))
    if rng.random() >= OTHERS:
        return "plus_times"
    dtypes = {x.dtype for x in program.operands}
    if any(dtype.startswith("complex") for dtype in dtypes):
        return "plus_times"
    if dtypes == {"bool"}:
        return "or_and"
    integers = all("int" in dtype or dtype == "bool" for dtype in dtypes)
    integers = integers and np.result_type(*dtypes).kind != "f"  # as of uint64 and int64
    known = ["min_plus", "max_plus", "max_times", Semiring("min", "*"), *(["or_and"] * 4 if integers else [])]
    return known[int(rng.integers(len(known)))]


def _implicit(terms: Sequence[str]) -> str:
    letters = "".join(terms)
    return "".join(sorted(v for v in set(letters) if letters.count(v) == 1))


def _unassembled(sparse: Sequence[str], kept: str, several: bool) -> bool:
    """Whether the result would by default be sparse, on a new pattern."""
    for term in sparse:
        if set(term) <= set(kept):
            return several or len(set(term)) < len(term)
    return len(kept) >= 2 and set(kept) <= set("".join(sparse))
