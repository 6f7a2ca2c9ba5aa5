"""Random sums of products for `evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from keyword import iskeyword
from string import ascii_letters, digits

import numpy as np
from programs.compositions import with_compositions
from programs.draw import Draw
from programs.evaluation import Evaluation, Leaf, Product, Sum
from programs.program import DenseOperand, SparseOperand

from jsparse import Format

__all__ = ["SumDraw", "random_sum"]

REDUCED = 0.3  # the share of sums with a sparse result of tensors that have more indices
SPACE = 2_000  # the most points of all indices: float32 represents any sum of the products
TAKEN = {
    "text",
    "nse",
    "shape",
    "sum",
    "min",
    "max",
    "exp",
    "log",
    "sqrt",
    "abs",
}  # names of parameters, and names that may become functions


def random_sum(*seed: int) -> Evaluation:
    """The sum of a seed, which is the same in every process."""
    draw = _ReducedDraw if np.random.default_rng((*seed, 8)).random() < REDUCED else SumDraw
    return with_compositions(draw((*seed, 7)).evaluation())


class SumDraw(Draw):
    """Random names, tensors and products, and their text."""

    def __init__(self, seed: tuple[int, ...]) -> None:
        super().__init__(seed)
        self.largest = 3
        self.tensors: dict[str, SparseOperand | DenseOperand] = {}
        self.leaves: list[Leaf] = []
        self.indices: list[str] = []

    def evaluation(self) -> Evaluation:
        """A statement with one to three terms."""
        for _ in range(self.count()):
            self.indices.append(self.name(self.indices, shortest=0.7))
        self.draw_sizes(self.indices, [], SPACE)
        terms = self.choice((1, 2, 3), (0.2, 0.4, 0.4))
        expression = Sum(tuple(self.product(3, 0.2) for _ in range(terms)))
        kept = tuple(self.rng.permutation(self.kept()).tolist())
        target = Leaf(self.name([*self.tensors, *self.indices]), kept)
        out = self.sparse(kept) if kept and self.chance(0.3) else self.assembled(len(kept))
        tensors = tuple(self.tensors[name] for name in self.tensors)
        named = tuple(zip(self.tensors, tensors, strict=True))
        text = f"{self.written(target)}{self.spaced('=')}{self.written(expression)}"
        drawn = Evaluation(self.seed, text, target, expression, named, out)
        negative = any(coefficient < 0 for coefficient, _ in expression.expanded())
        if drawn.dtype != bool or not negative:
            return drawn
        return replace(drawn, tensors=tuple((name, replace(x, dtype="int8")) for name, x in named))  # no bool is < 0

    def count(self) -> int:
        """The number of indices."""
        return int(self.rng.integers(1, 6))

    def kept(self) -> list[str]:
        """The indices of the target."""
        carried = {v for leaf in self.leaves for v in leaf.indices}
        share = self.choice((0.0, 0.5, 1.0), (0.15, 0.55, 0.3))
        return [v for v in self.indices if v in carried and self.chance(share)]

    def name(self, others: Sequence[str], shortest: float = 0.4) -> str:
        """An identifier of one to six characters that is not in `others`."""
        while True:
            length = 1 if self.chance(shortest) else int(self.rng.integers(2, 7))
            first, *rest = self.rng.integers(len(ascii_letters + digits + "_"), size=length)
            found = ascii_letters[first % 52] + "".join((ascii_letters + digits + "_")[n] for n in rest)
            if found not in others and found not in TAKEN and not iskeyword(found):
                return found

    def product(self, most: int, nested: float) -> Product:
        """A coefficient and one to `most` factors, one of them perhaps a sum."""
        coefficient = self.coefficient()
        count = int(self.rng.integers(1, most + 1))
        inside = int(self.rng.integers(count)) if self.chance(nested) else None
        factors = [Sum((self.product(2, 0), self.product(2, 0))) if n == inside else self.leaf() for n in range(count)]
        return Product(coefficient, tuple(factors))

    def coefficient(self) -> int:
        """The number by which a product is multiplied."""
        return self.choice((1, -1, 2, -2, 3, -3), (0.45, 0.2, 0.15, 0.1, 0.05, 0.05))

    def leaf(self) -> Leaf:
        """A tensor with indices: a new tensor, or an existing one, perhaps with permuted indices."""
        if self.leaves and self.chance(0.15):
            known = self.choice(self.leaves)
            turned = tuple(self.rng.permutation(known.indices).tolist()) if known.indices else ()
            return Leaf(known.name, turned) if self.shape(turned) == self.shape(known.indices) else known
        order = min(self.choice((0, 1, 2, 3, 4), (0.1, 0.3, 0.4, 0.15, 0.05)), len(self.indices))
        term = self.rng.permutation(self.indices)[:order].tolist()
        if order > 1 and self.chance(0.08):
            term[0] = term[-1]
        unused = [v for v in self.indices if v not in self.tensors]
        like_index = bool(unused) and self.chance(0.12)
        name = self.choice(unused) if like_index else self.name([*self.tensors, *self.indices])
        self.tensors[name] = self.sparse(term) if self.chance(0.6) else self.dense(term)
        self.leaves.append(Leaf(name, tuple(term)))
        return self.leaves[-1]

    def written(self, part: Leaf | Product | Sum) -> str:
        """The text of a part, with random spaces."""
        match part:
            case Leaf(name=name, indices=indices):
                return f"{name}[{self.listed(indices)}]" if indices else name
            case Product(coefficient=coefficient, factors=factors):
                texts = [f"({self.written(f)})" if isinstance(f, Sum) else self.written(f) for f in factors]
                if not factors:
                    return str(abs(coefficient))
                if abs(coefficient) > 1:
                    texts.insert(
                        0 if self.chance(0.8) else int(self.rng.integers(len(texts) + 1)), str(abs(coefficient))
                    )
                return self.spaced("*").join(texts)
            case Sum(terms=terms):
                text = ""
                for n, term in enumerate(terms):
                    sign = "-" if term.coefficient < 0 else "+" if n else ""
                    text += (self.spaced(sign) if n else sign) + self.written(term)
                return text

    def listed(self, indices: Sequence[str | Leaf]) -> str:
        """The text of indices; some of them may be accesses."""
        comma = ", " if self.chance(0.3) else ","
        return comma.join(index if isinstance(index, str) else self.written(index) for index in indices)

    def spaced(self, symbol: str) -> str:
        """An operator, mostly with a space on both sides."""
        return f" {symbol} " if self.chance(0.7) else symbol


class _ReducedDraw(SumDraw):
    """Sums with a sparse result, whose tensors have several summed indices at adjacent levels, below the target's."""

    def count(self) -> int:
        """The number of indices. The first one or two are the target's."""
        self.of_target = self.choice((1, 2), (0.4, 0.6))
        return self.of_target + int(self.rng.integers(2, 5))

    def kept(self) -> list[str]:
        """The indices of the target."""
        return self.indices[: self.of_target]

    def product(self, most: int, nested: float) -> Product:
        """A product whose first factor is sparse and has the target's indices and some others."""
        summed = self.rng.permutation(self.indices[self.of_target :])[: self.choice((0, 2, 3), (0.2, 0.5, 0.3))]
        known = [leaf for leaf in self.leaves if leaf.indices[: self.of_target] == tuple(self.kept())]
        first = self.choice(known) if known and self.chance(0.15) else self.added((*self.kept(), *summed.tolist()))
        if self.chance(0.4):
            return Product(self.coefficient(), (first,))
        others = super().product(most - 1, nested)
        return Product(others.coefficient, (first, *others.factors))

    def added(self, term: Sequence[str]) -> Leaf:
        """A new sparse tensor with these indices."""
        name = self.name([*self.tensors, *self.indices])
        self.tensors[name] = self.sparse(term)
        self.leaves.append(Leaf(name, tuple(term)))
        return self.leaves[-1]

    def format(self, order: int, any_entries: bool = False) -> Format:
        """A random format, often one whose levels are in the order of the indices."""
        return Format.of("csf", order) if order and self.chance(0.5) else super().format(order, any_entries)
