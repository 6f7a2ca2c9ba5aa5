"""einsum's other form, with a list of integers after each operand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from notation.evaluator import assignment_value, by_numpy

import jsparse
from jsparse import JsparseError, NotYetSupportedError, ScheduleError, SubscriptError
from jsparse.notation import parse_einsum, read_sublists

x = np.arange(12).reshape(3, 4)
A = jsparse.asarray(x.astype(np.float32) % 3)
v = np.arange(4, dtype=np.float32)


@pytest.mark.parametrize(
    "lists, text",
    [
        ([[0, 1], [1, 2], [0, 2]], "ab,bc->ac"),
        ([[7, 3], (3, 900)], "ba,ac"),
        ([[0, 1], [1], []], "ab,b->"),
        ([range(2), [..., 1], [..., 0]], "ab,...b->...a"),
        ([[np.int64(5), np.uint8(4)], [], [5]], "ba,->b"),
        ([range(20), range(10, 30)], "ABCDEFGHIJKLMNOPQRST,KLMNOPQRSTUVWXYZabcd"),
    ],
)
def test_letters_have_the_order_of_the_integers(lists, text):
    arguments = [y for pair in zip("xy", lists, strict=False) for y in pair] + lists[2:]
    assert read_sublists(arguments) == (text, ("x", "y"))


@st.composite
def calls(draw):
    numbers = draw(st.lists(st.integers(0, 51), min_size=3, max_size=3, unique=True))
    lists = draw(st.lists(st.lists(st.sampled_from([*numbers, ...]), max_size=3), min_size=1, max_size=3))
    arguments = []
    for entries in lists:
        shape = [n for e in entries for n in ([2, 3] if e is ... else [2 + numbers.index(e)])]
        arguments += [np.random.default_rng(len(shape)).integers(-4, 5, shape), entries]
    if draw(st.booleans()):
        known = sorted({e for entries in lists for e in entries if e is not ...})
        arguments.append(draw(st.permutations([*known, ...]))[: draw(st.integers(0, 4))])
    return arguments


@given(calls())
def test_the_value_is_numpys(arguments):
    try:
        want = np.einsum(*arguments)
    except ValueError:
        want = None
    try:
        text, operands = read_sublists(arguments)
        got = assignment_value(parse_einsum(text, [y.shape for y in operands]), operands)
    except JsparseError:
        assert want is None
        return
    if "..." in text and "..." not in text.partition("->")[2]:  # summed here, as in jax.numpy, and refused by numpy
        want = by_numpy(text, operands)
    np.testing.assert_array_equal(got, want, strict=True)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((A, [0, 1], v), "argument 2 .* the indices of the result .* of type ndarray"),
        ((A, [0, 1], v, [1], 0), "argument 4 .* the indices of the result .* of type int"),
        ((A, [0, 1], v, None, [0]), "argument 3 .* the indices of operand 1, a list .* of type NoneType"),
        ((A, [0, [1]], v, [1]), "argument 1 .* the indices of operand 0, .* holds a list"),
        ((A, [0, -1], v, [1]), "holds -1"),
        ((A, [0, 1.0], v, [1]), "holds 1.0"),
        ((A, [0, True], v, [1]), "holds True"),
        ((A, [0, "i"], v, [1]), "holds 'i'"),
        ((A, [0, 1], v, [1], [{}]), "the indices of the result.*holds a dict"),
        ((A, [..., 0, ...], v, [0]), "'.' is at position 4"),
        ((A, [0, 1], v, [1], [0, 0]), "'a' appears 2 times in 'ab,b->aa'"),
        ((A, "ij"), "but the first argument is of type SparseTensor"),
        ((A,), "but the first argument is of type SparseTensor"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(SubscriptError, match=message):
        jsparse.einsum(*arguments)


def test_more_indices_than_letters():
    with pytest.raises(NotYetSupportedError, match="at most 52 .* have 53"):
        read_sublists((A, range(53)))


@pytest.mark.parametrize("rest", [([0, 1], v, [1], [0]), ((5, 2), v, (2,)), ([..., 1], v, [1], [...])])
def test_with_a_sparse_operand(rest):
    np.testing.assert_array_equal(jsparse.einsum(A, *rest), np.einsum(x % 3, *rest))


def test_all_functions_that_take_text_take_lists():
    np.testing.assert_array_equal(jsparse.einsum(v, [1], A, [0, 1], [0]), x % 3 @ v)
    np.testing.assert_array_equal(jsparse.einsum(x, [0, 1], v, [1]), x @ v)
    np.testing.assert_array_equal(jsparse.einsum(x, [0, 1], v, [1], out_format="dense"), x @ v)
    sampled = jsparse.einsum(x[:, :2], [0, 2], x[:2], [2, 1], [0, 1], out_format=A)
    np.testing.assert_array_equal(sampled.todense(), np.where(x % 3, x[:, :2] @ x[:2], 0))
    assert "einsum 'ab,b->a'" in str(jsparse.explain(A, [0, 1], v, [1], [0]).summary)
    with pytest.raises(ScheduleError, match="schedule= of einsum of lists of indices"):
        jsparse.einsum(x, [0, 1], v, [1], schedule=1)
