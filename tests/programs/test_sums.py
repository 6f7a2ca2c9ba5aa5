"""The generator of random sums of products: text, expression tree and numpy's result agree."""

import itertools

import numpy as np
import pytest
from programs.evaluation import Evaluation
from programs.sums import random_sum


class _Name:
    """The value of a name when Python evaluates the text: a tensor or an index."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, indices) -> "_Terms":
        named = indices if isinstance(indices, tuple) else (indices,)
        return _Terms([(1, ((self.name, tuple(index.name for index in named)),))])

    def scalar(self) -> "_Terms":
        return _Terms([(1, ((self.name, ()),))])

    def __neg__(self):
        return -self.scalar()

    def __add__(self, other):
        return self.scalar() + other

    def __sub__(self, other):
        return self.scalar() - other

    def __mul__(self, other):
        return self.scalar() * other

    __rmul__ = __mul__


class _Terms:
    """A sum of products of coefficients and tensors."""

    def __init__(self, terms) -> None:
        self.terms = terms

    @staticmethod
    def of(value) -> "_Terms":
        if isinstance(value, _Name):
            return value.scalar()
        return value if isinstance(value, _Terms) else _Terms([(value, ())])

    def __neg__(self):
        return _Terms([(-c, leaves) for c, leaves in self.terms])

    def __add__(self, other):
        return _Terms(self.terms + _Terms.of(other).terms)

    def __sub__(self, other):
        return self + -_Terms.of(other)

    def __mul__(self, other):
        pairs = itertools.product(self.terms, _Terms.of(other).terms)
        return _Terms([(a * b, (*left, *right)) for (a, left), (b, right) in pairs])

    __rmul__ = __mul__


def _read(program: Evaluation):
    """The products in the text, as Python's parser reads it."""
    target, text = program.text.split("=")
    names = [program.target.name, *(name for name, _ in program.tensors), *program.sizes]
    scope = {name: _Name(name) for name in names}
    (_, leaves), *none = _Terms.of(eval(target.strip(), dict(scope))).terms
    assert not none
    return leaves[0], _Terms.of(eval(text.strip(), dict(scope))).terms


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_text_and_tree_agree(first):
    for n in range(first, first + 100):
        program = random_sum(0, n)
        target, terms = _read(program)
        assert target == (program.target.name, program.target.indices)
        expanded = [(c, tuple((leaf.name, leaf.indices) for leaf in p)) for c, p in program.expression.expanded()]
        assert sorted((c, sorted(leaves)) for c, leaves in terms) == sorted((c, sorted(p)) for c, p in expanded)


def test_numpy_agrees_with_a_sum_over_points():
    for n in range(40):
        program = random_sum(1, n)
        if np.prod(list(program.sizes.values()), initial=1) > 150:
            continue
        want = np.zeros(program.expected.shape, int)
        arrays = {name: operand.array for name, operand in program.tensors}
        kept = program.target.indices
        for coefficient, product in program.expression.expanded():
            names = list(dict.fromkeys([*kept, *(v for leaf in product for v in leaf.indices)]))
            for point in itertools.product(*(range(program.sizes[v]) for v in names)):
                at = dict(zip(names, point, strict=True))
                value = coefficient
                for leaf in product:
                    value *= arrays[leaf.name][tuple(at[v] for v in leaf.indices)]
                want[tuple(at[v] for v in kept)] += value
        np.testing.assert_array_equal(program.expected, want.astype(program.expected.dtype))


def test_sums_are_of_all_kinds():
    programs = [random_sum(2, n) for n in range(300)]
    products = [[product for _, product in p.expression.expanded()] for p in programs]
    assert {len(p.expression.terms) for p in programs} == {1, 2, 3}
    assert any("(" in p.text for p in programs)
    assert any(name in p.sizes for p in programs for name, _ in p.tensors)
    assert any(not leaf.indices for found in products for product in found for leaf in product)
    assert any(
        set(p.target.indices) - {v for leaf in product for v in leaf.indices}
        for p, found in zip(programs, products, strict=True)
        for product in found
    )
    exact = [p.expected for p in programs if p.dtype.kind != "u"]  # a negative sum of unsigned integers wraps
    assert np.abs([np.abs(x).max(initial=0) for x in exact]).max() < 2**24
