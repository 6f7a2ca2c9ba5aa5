"""numpy's einsum grammar."""

import numpy as np
import pytest

from jsparse import ShapeError, SubscriptError
from jsparse.notation import Access, Assignment, parse_einsum


def test_terms_become_accesses():
    read = parse_einsum(" ij, jk -> ik ", ((3, 4), (4, 5)))
    assert read == Assignment(Access("C", ("i", "k")), (Access("A", ("i", "j")), Access("B", ("j", "k"))))
    assert str(read) == "C[i, k] = A[i, j] * B[j, k]"
    assert read.variables() == ("i", "k", "j")


@pytest.mark.parametrize(
    "text, ranks, result",
    [
        ("ij,jk", (2, 2), "ik"),
        ("ba", (2,), "ab"),
        ("ii", (2,), ""),
        ("iij", (3,), "j"),
        (",i", (0, 1), "i"),
        ("Za", (2,), "Za"),
    ],
)
def test_implicit_result_is_numpys(text, ranks, result):
    arrays = [np.zeros([2] * rank) for rank in ranks]
    assert "".join(parse_einsum(text, [x.shape for x in arrays]).target.indices) == result
    assert np.einsum(text, *arrays).ndim == len(result)


def test_scalars_and_repeats():
    assert str(parse_einsum("ii,->", ((3, 3), ()))) == "C = A[i, i] * B"


@pytest.mark.parametrize(
    "text, offset",
    [
        ("i1,j", 1), ("ij;jk", 2), ("ij->i->j", 2), ("ij-i", 2), ("i,j->i,j", 6), ("é", 0), ("i..,j", 1), (".i,j", 0),
        ("....i,j", 3), ("...i...,j", 4), ("......,j", 3), ("...,j->......", 10),
    ],
)  # fmt: skip
def test_a_caret_points_at_the_error(text, offset):
    with pytest.raises(SubscriptError) as caught:
        parse_einsum(text, ((2, 2), (2,)))
    *_, line, caret = str(caught.value).split("\n")
    assert line.strip() == text
    assert caret == "    " + " " * offset + "^"


@pytest.mark.parametrize(
    "text, ranks, kind, message",
    [
        ("ij,jk->ii", (2, 2), SubscriptError, "'i' appears 2 times"),
        ("ij->k", (2,), SubscriptError, "'k' of 'ij->k' does not"),
        ("ij,jk->ik", (2,), SubscriptError, "2 in number, but got 1"),
        ("ij->i", (3,), ShapeError, "operand A of 'ij->i' to have rank 2.*rank 3"),
        ("...ij->...", (1,), ShapeError, "operand A of '...ij->...' to have rank at least 2.*rank 1"),
        (np.zeros(2), (), SubscriptError, "first argument is of type ndarray"),
    ],
)
def test_errors_say_what_was_found(text, ranks, kind, message):
    with pytest.raises(kind, match=message):
        parse_einsum(text, [(2,) * rank for rank in ranks])


def test_indirect_accesses_print_and_list_their_variables():
    access = Access("V", ("b", Access("G", ("q",)), "t"))
    assert str(access) == "V[b, G[q], t]"
    assert access.variables() == ("b", "q", "t")
    assert access.indirections() == (Access("G", ("q",)),)
