"""Parsed tensor index notation: its statement, and that the statement has the value of the text."""

import operator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from notation.evaluator import statement_value

from jsparse.notation import Access, Product, Statement, parse_statement


@pytest.mark.parametrize(
    "text, printed",
    [
        ("C[i,j] = A[i,j] + B[i,j]", "C[i, j] = A[i, j] + B[i, j]"),
        ("y[i] = b[i] - A[i,j]*x[j]", "y[i] = b[i] - A[i, j] * x[j]"),
        (
            "D[i,j] = (A[i,k] + B[i,k]) * E[k,j] - F[i,j]",
            "D[i, j] = A[i, k] * E[k, j] + B[i, k] * E[k, j] - F[i, j]",
        ),
        ("y[i] = 2 * A[i,j] * x[j] / 4", "y[i] = 0.5 * A[i, j] * x[j]"),
        ("s = A[i,j] * B[i,j]", "s = A[i, j] * B[i, j]"),
        ("C[i,j] = alpha * A[i,j]", "C[i, j] = alpha * A[i, j]"),
        ("C[i,j] = A[i,j] + b[i]", "C[i, j] = A[i, j] + b[i]"),
        ("\tC [ i ]\n=-A[ i ] ", "C[i] = -A[i]"),
        ("C[i] = A[i] + 1", "C[i] = A[i] + 1"),
        ("C[i] = 1 + (2 + 3) + A[i] - 1", "C[i] = 1 + 5 + A[i] - 1"),
        ("s = 2", "s = 2"),
        ("s = -(-(-(3)))", "s = -3"),
        ("C[i] = -2*A[i]", "C[i] = -2 * A[i]"),
        ("C[i] = -(A[i] - B[i]) * (c - d)", "C[i] = -A[i] * c + A[i] * d + B[i] * c - B[i] * d"),
        ("C[i] = A[i] - (B[i] - (c - 1))", "C[i] = A[i] - B[i] + c - 1"),
        ("C[i] = (1 - 1) * A[i]", "C[i] = 0 * A[i]"),
        ("C[i] = A[i] + A[i]", "C[i] = A[i] + A[i]"),
        ("C[A] = A[A,i] * i * sin[A]", "C[A] = A[A, i] * i * sin[A]"),
        ("min = max[i]", "min = max[i]"),
        ("C[rows[p],n]+=V[p]*B[cols[ p , q ],n]", "C[rows[p], n] += V[p] * B[cols[p, q], n]"),
        ("C[a[b[c[p]]],a[q]] min = -A[c[p],q]", "C[a[b[c[p]]], a[q]] min= -A[c[p], q]"),
        ("min[i] max= max[i]", "min[i] max= max[i]"),
        ("long_name2[_row] = Matrix_1[_row, column]", "long_name2[_row] = Matrix_1[_row, column]"),
        ("s = A[i,i]", "s = A[i, i]"),
        ("y[i] = exp(A[i] - 2 * (B[i] + 1))", "y[i] = exp(A[i] - 2 * (B[i] + 1))"),
        ("y[i] = (A[i] + B[i]) * exp(B[i])", "y[i] = A[i] * exp(B[i]) + B[i] * exp(B[i])"),
        ("y[i] = max(-(A[i]), 3, x) * 2", "y[i] = 2 * max(-A[i], 3, x)"),
        ("y[i] = A[i] * 2 > B[i] - 1", "y[i] = (2 * A[i] > B[i] - 1)"),
        (
            "y[i] = where(A[i] >= 0, (A[i] + 1) * (A[i] + 1), -.5)",
            "y[i] = where((A[i] >= 0), (A[i] + 1) * (A[i] + 1), -0.5)",
        ),
        ("s += relu(A[i, j])", "s += relu(A[i, j])"),
        ("exp[i] = exp(exp2[i]) * exp3[i]", "exp[i] = exp(exp2[i]) * exp3[i]"),
    ],
)
def test_parsed_statements(text, printed):
    read = parse_statement(text)
    assert str(read) == printed
    assert parse_statement(printed) == read


def test_calls_are_factors_with_the_variables_of_their_arguments():
    read = parse_statement("y[i] += 2 * relu((A[i,j] + x[j]) * exp(z[k])) ** 2 * x[j] / (1 + x[j])")
    (term,) = read.terms
    names = [(factor.tensor, factor.indices) for factor in term.factors]
    product = "relu((A[i, j] + x[j]) * exp(z[k]))**2"
    assert names == [(product, ("i", "j", "k")), ("x", ("j",)), ("(1 + x[j])**-1", ("j",))]
    calls = ["exp(z[k])", "(A[i, j] + x[j])", "relu((A[i, j] + x[j]) * exp(z[k]))", "(1 + x[j])"]
    assert [str(call) for call in read.calls] == calls
    assert [call.function for call in read.calls] == ["exp", "", "relu", ""]
    assert read.tensors() == ("x", "z", "A")
    assert [factor.is_call for factor in term.factors] == [True, False, True]


def test_arguments_are_not_multiplied_out():
    (square, outer) = parse_statement("y[i] = exp((A[i] - B[i]) ** 2)").calls
    assert str(square) == "(A[i] - B[i])"
    assert str(outer.factors[0]) == "(A[i] - B[i])**2"
    assert parse_statement("y[i] = (A[i] - B[i]) ** 2").calls == ()


@pytest.mark.parametrize(
    "expression, coefficient",
    [
        ("6 / 3", 2),
        ("6 / 4", 1.5),
        ("2 / 3 * 3", 2),
        ("(2 - 5) / (1 + 2)", -1),
        ("4.0 / 2", 2.0),
        ("1e3", 1000.0),
        ("5. * .5", 2.5),
        ("1E-2 * 100", 1.0),
        ("007", 7),
        ("3 * 123456789012345678901234567890", 370370367037037036703703703670),
        ("1" + "0" * 300 + " / 1" + "0" * 299, 10),
    ],
)
def test_coefficients_are_exact(expression, coefficient):
    for text in (f"s = {expression} * a", f"s = a * ({expression})"):
        (term,) = parse_statement(text).terms
        assert term == Product(coefficient, (Access("a", ()),))
        assert type(term.coefficient) is type(coefficient)


def test_long_fractions_become_floats():
    (term,) = parse_statement("s = a" + " / 3" * 600 + " * 3" * 600).terms
    assert term.coefficient == pytest.approx(1.0)
    assert parse_statement("s = a" + "/7" * 20_000).terms == (Product(0.0, (Access("a", ()),)),)


def test_variables_and_tensors():
    read = parse_statement("D[j, i] = (A[i,k] + B[i,k]) * E[k,j] - F[i,j] * A[i,i] * alpha")
    assert read.variables() == ("j", "i", "k")
    assert read.tensors() == ("A", "E", "B", "F", "alpha")
    assert read.terms[0].variables() == ("i", "k", "j")
    nested = Statement(Access("C", ("n",)), (Product(1, (Access("V", (Access("G", ("q",)), "n")),)),))
    assert nested.tensors() == ("V", "G")
    assert nested.variables() == ("n", "q")
    assert str(nested) == "C[n] = V[G[q], n]"


@pytest.mark.parametrize(
    "terms, printed",
    [
        ((), "s = 0"),
        ((Product(1 + 2j, ()),), "s = (1+2j)"),
        ((Product(1.0, (Access("a", ()),)), Product(-1.0, (Access("b", ()),))), "s = 1.0 * a - 1.0 * b"),
        ((Product(-1, ()), Product(-1e-20, ())), "s = -1 - 1e-20"),
    ],
)
def test_printing(terms, printed):
    assert str(Statement(Access("s", ()), terms)) == printed


VARIABLES = "ijk"
RANKS = {"A": 2, "B": 2, "x": 1, "i": 1, "alpha": 0}
ARRAYS = {name: np.random.default_rng(len(name) + rank).integers(-3, 4, (3,) * rank) for name, rank in RANKS.items()}
OPERATORS = {"+": (operator.add, 1), "-": (operator.sub, 1), "*": (operator.mul, 2), "/": (operator.truediv, 2)}


@dataclass(frozen=True)
class Tree:
    """An expression: its text, the precedence of its outermost operator, and its value.

    The value is a dict. A key is the set of index variables that terms have, and its value is the sum of these terms:
    an array with an axis for every variable. So it is known over which variables each term has to be summed.
    """

    text: str
    binds: int
    parts: dict

    def inside(self, least):
        return self.text if self.binds >= least else f"({self.text})"

    def value(self, target):
        """The sum of all parts, each summed over its variables that the target lacks, with the target's axes."""
        summed = [tuple(VARIABLES.index(v) for v in carried - set(target)) for carried in self.parts]
        total = sum(x.sum(axes, keepdims=True) for x, axes in zip(self.parts.values(), summed, strict=True))
        kept = [VARIABLES.index(v) for v in target]
        return np.squeeze(np.moveaxis(total, kept, range(len(kept))), tuple(range(len(kept), len(VARIABLES))))


def number(value):
    return Tree(str(value), 3, {frozenset(): np.full((1,) * len(VARIABLES), float(value))})


def access(name, indices):
    carried = "".join(v for v in VARIABLES if v in indices)
    part = np.einsum(f"{''.join(indices)}->{carried}", ARRAYS[name])
    part = np.expand_dims(part, [n for n, v in enumerate(VARIABLES) if v not in carried])
    return Tree(f"{name}[{','.join(indices)}]" if indices else name, 3, {frozenset(carried): part})


def joined(left, symbol, right):
    apply, binds = OPERATORS[symbol]
    text = f"{left.inside(binds)}{symbol}{right.inside(binds + 1)}"
    parts = {}
    if binds == 2:
        for a, x in left.parts.items():
            for b, y in right.parts.items():
                parts[a | b] = parts.get(a | b, 0) + apply(x, y)
    else:
        parts = dict(left.parts)
        for b, y in right.parts.items():
            parts[b] = apply(parts.get(b, 0), y)
    return Tree(text, binds, parts)


def minus(tree):
    return Tree(f"-{tree.inside(2)}", 0, {carried: -part for carried, part in tree.parts.items()})


leaves = st.one_of(
    st.integers(0, 4).map(number),
    st.sampled_from([0.5, 1.25, 2e1]).map(number),
    st.sampled_from(sorted(RANKS)).flatmap(
        lambda name: st.tuples(*[st.sampled_from(VARIABLES)] * RANKS[name]).map(lambda at: access(name, at))
    ),
)
divisors = st.sampled_from([number(4), number(0.5), joined(number(1), "+", number(3)), minus(number(2))])
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(joined, inner, st.sampled_from("+-*"), inner),
        st.builds(joined, inner, st.just("/"), divisors),
        st.builds(minus, inner),
    ),
    max_leaves=10,
)


@given(trees, st.permutations(list(VARIABLES)), st.integers(0, 3), st.sampled_from(["", " ", "\n "]))
def test_the_value_of_a_statement_is_that_of_its_text(tree, order, rank, space):
    carried = {v for variables in tree.parts for v in variables}
    target = [v for v in order[:rank] if v in carried]
    text = f"T[{','.join(target)}]={tree.text}" if target else f"T={tree.text}"
    for symbol in "+*=,]":
        text = text.replace(symbol, f"{space}{symbol}{space}")
    read = parse_statement(text)
    assert parse_statement(str(read)) == read
    np.testing.assert_array_equal(statement_value(read, ARRAYS), tree.value(target))
