"""Errors of einsum: their class, and that the message says what was expected, what was found, and where."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import jsparse
from jsparse import (
    DTypeError,
    FormatError,
    JsparseError,
    Pattern,
    PatternError,
    ScheduleError,
    SemiringError,
    ShapeError,
    SparseTensor,
    SubscriptError,
)

D = (np.arange(35).reshape(5, 7) % 3).astype(np.float32)
A = jsparse.asarray(D)
T = jsparse.asarray(np.arange(30).reshape(5, 3, 2).astype(np.float32))
x, X, Y = np.ones(7, np.float32), np.ones((7, 2), np.float32), np.ones((5, 2), np.float32)


def refuses(error, *parts, text, operands, **options):
    """Check that einsum raises `error`, and that its message has all `parts`."""
    with pytest.raises(error) as caught:
        jsparse.einsum(text, *operands, **options)
    assert isinstance(caught.value, JsparseError)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "text, operands, parts",
    [
        ("ijk,j->i", (A, x), ["operand A of 'ijk,j->i'", "rank 3", "'ijk'", "it has rank 2"]),
        ("ij,jk->i", (A, x), ["operand B of 'ij,jk->i'", "rank 2", "'jk'", "it has rank 1"]),
        ("ij,,jk->ik", (A, x, X), ["operand B of 'ij,,jk->ik'", "rank 0", "it has rank 1"]),
        ("", (A,), ["operand A of ''", "rank 0", "it has rank 2"]),
        ("->", (A,), ["operand A of '->'", "rank 0"]),
    ],
)
def test_ranks(text, operands, parts):
    refuses(ShapeError, *parts, text=text, operands=operands)


@pytest.mark.parametrize(
    "text, operands, parts",
    [
        ("ij->i", (A, x), ["'ij->i' has 1 terms and 2 operands"]),
        ("ij,j,k->i", (A, x), ["'ij,j,k->i' has 3 terms and 2 operands"]),
        ("ij,,jk->ik", (A, X), ["'ij,,jk->ik' has 3 terms and 2 operands"]),
        ("ij,j->i", (X,), ["'ij,j->i' has 2 terms and 1 operands"]),
        ("ij->i", (X, x), ["'ij->i' has 1 terms and 2 operands"]),
        ("", (), ["as many operands as terms"]),
    ],
)
def test_numbers_of_operands(text, operands, parts):
    refuses(SubscriptError, *parts, text=text, operands=operands, out_format=None if operands else A)


def test_arguments_of_other_einsums():
    for name in ("out", "casting", "order", "nothing"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
            jsparse.einsum("ij->i", A, **{name: None})
    with pytest.raises(TypeError, match="dtype= or preferred_element_type="):
        jsparse.einsum("ij->i", A, dtype="float32", preferred_element_type="float32")
    for options in ({"optimize": "optimal"}, {"optimize": False}, {"precision": "highest"}, {"dtype": "float32"}):
        np.testing.assert_allclose(jsparse.einsum("ij->i", A, **options), A.todense().sum(1), rtol=1e-6)
        np.testing.assert_allclose(jsparse.einsum("ij->i", X, **options), np.asarray(X).sum(1), rtol=1e-6)


@pytest.mark.parametrize(
    "text, operands, sampled, parts",
    [
        ("ij,j->i", (A, x[:6]), False, ["'j'", "'ij,j->i'", "7 in dimension 1 of operand A of shape (5, 7)",
                                        "6 in dimension 0 of operand B of shape (6,)"]),
        ("ik,jk->ij", (Y, X[:6]), True, ["'j'", "6 in dimension 0 of operand B of shape (6, 2)",
                                         "7 in dimension 1 of out_format of shape (5, 7)"]),
        ("ii->", (A,), False, ["'i'", "5 in dimension 0 of operand A", "7 in dimension 1 of operand A"]),
        ("ik,jk->jik", (Y, X), True, ["out_format of 'ik,jk->jik'", "shape (5, 7)", "sizes j: 7, i: 5, k: 2"]),
        ("ij,j->i", (A, x), True, ["out_format of 'ij,j->i'", "rank 1", "shape (5, 7)"]),
    ],
)  # fmt: skip
def test_sizes(text, operands, sampled, parts):
    refuses(ShapeError, *parts, text=text, operands=operands, out_format=A if sampled else None)


@pytest.mark.parametrize(
    "text, operands, parts",
    [
        ("ij->k", (A,), ["'k' of 'ij->k'"]),
        ("ij,j->ii", (A, x), ["'i' stands 2 times", "'ij,j->ii'"]),
        ("i j->>ji", (A,), ["'>' stands at position 4", "ij->>ji", "    ^"]),
        ("ij->ji->ij", (A,), ["'-' stands at position 2"]),
        ("ij,j-", (A, x), ["'-' stands at position 4"]),
        ("ij;j->i", (A, x), ["';' stands at position 2"]),
        ("1j,j->1", (A, x), ["'1' stands at position 0"]),
        ("éj,j->é", (A, x), ["'é' stands at position 0"]),
        ("ij,j->i,", (A, x), ["',' stands at position"]),
        ("ij,j\n->i", (A, x), ["stands at position 4"]),
    ],
)
def test_subscripts(text, operands, parts):
    refuses(SubscriptError, *parts, text=text, operands=operands)


@pytest.mark.parametrize("arguments", [(A,), (None, A), (3, A, x), (b"ij,j->i", A, x)])
def test_the_first_argument_is_text(arguments):
    with pytest.raises(SubscriptError, match=r"subscripts as text .* but the first argument is of type"):
        jsparse.einsum(*arguments)


@pytest.mark.parametrize(
    "error, text, parts",
    [
        (ShapeError, "...ijk,j", ["operand A of '...ijk,j'", "rank at least 3", "it has rank 2"]),
        (ShapeError, "...,...", ["'...' of '...,...'", "(5, 7), (2,) there", "sizes 7 and 2"]),
    ],
)
def test_ellipsis(error, text, parts):
    refuses(error, *parts, text=text, operands=(A, x if "j" in text else x[:2]))


def test_dtypes_that_do_not_promote():
    refuses(
        DTypeError, "'ij,j->i'", "jax does not promote bfloat16, float8_e4m3fn", ".astype",
        text="ij,j->i", operands=(A.astype("bfloat16"), jnp.asarray(x).astype("float8_e4m3fn")),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["int4", "float8_e4m3fn", "nonsense", "S3", object(), [("a", "f4")]])
def test_preferred_dtypes(dtype):
    refuses(DTypeError, "preferred_element_type", "'ij,j->i'", text="ij,j->i", operands=(A, x),
            preferred_element_type=dtype)  # fmt: skip


def test_a_real_result_of_complex_operands():
    refuses(DTypeError, "complex if operands are", "complex64", "float32", text="ij,j->i",
            operands=(A, x * 1j), preferred_element_type=jnp.float32)  # fmt: skip


@pytest.mark.parametrize(
    "operand, parts",
    [
        ("abc", ("builtins.str", "jsparse.asarray")),
        (None, ("NoneType", "jsparse.asarray")),
        (object(), ("builtins.object", "jsparse.asarray")),
        ([A.pattern], ("builtins.list", "Pattern", "jsparse.asarray")),
        (np.array([["a"]]), ("dtype <U1", "Convert to numbers")),
    ],
)
def test_no_arrays(operand, parts):
    refuses(DTypeError, "'ij,jk->ik'", *parts, text="ij,jk->ik", operands=(A, operand))
    refuses(DTypeError, "'ij,jk->ik'", *parts, text="ij,jk->ik", operands=(operand, X))


def test_random_keys_are_no_numbers():
    refuses(DTypeError, "'ij,j->i'", "key<fry>", text="ij,j->i", operands=(A, jax.random.split(jax.random.key(0), 7)))


@pytest.mark.parametrize(
    "text, operands, parts",
    [
        ("ij,jk->ik", (A, A.T), ["'ij,jk->ik'", "nse=", "out_format='dense'"]),
        ("ij,kj->ik", (A, A), ["'ij,kj->ik'", "i, k belong to several"]),
        ("ij,k->ikj", (A, jsparse.asarray(D[0])), ["'ij,k->ikj'", "nse="]),
    ],
)
def test_results_that_nothing_bounds(text, operands, parts):
    dynamic = tuple(x.dynamic() for x in operands)
    refuses(PatternError, *parts, text=text, operands=dynamic)
    refuses(PatternError, *parts, text=text, operands=(operands[0], dynamic[1]))


@pytest.mark.parametrize("nse", [-1, 2.5, True, "3", None])
def test_nse(nse):
    if nse is not None:
        refuses(ShapeError, "nse=", repr(nse), text="ij,jk->ik", operands=(A, A.T), nse=nse)
    refuses(PatternError, "at most nse=3", "there are 25", text="ij,jk->ik", operands=(A, A.T), nse=3)
    refuses(PatternError, "at most nse=3", text="ij,i->ij", operands=(A, x[:5]), nse=3)


@pytest.mark.parametrize("out_format", ["csx", "", "(i, j) -> (i : dense)"])
def test_unknown_formats(out_format):
    with pytest.raises((FormatError, SubscriptError)):
        jsparse.einsum("ij,jk->ik", A, X, out_format=out_format)


@pytest.mark.parametrize("out_format", [3, [], D, jnp.ones(3), scipy.sparse.csr_array(D), object()])
def test_out_format_of_another_type(out_format):
    for operands in [(A, X), (D, X)]:
        refuses(FormatError, "out_format", "'ij,jk->ik'", text="ij,jk->ik", operands=operands, out_format=out_format)


def test_a_format_of_another_rank():
    with pytest.raises(FormatError):
        jsparse.einsum("ij,jk->ik", A, X, out_format=jsparse.Format.of("csf", 3))


def test_no_schedule():
    for operands in [(A, x), (D, x)]:
        refuses(ScheduleError, "schedule=", "'ij,j->i'", text="ij,j->i", operands=operands, schedule=1)


@pytest.mark.parametrize("semiring", ["nonsense", None, 3])
def test_unknown_semirings(semiring):
    refuses(SemiringError, "min_plus, max_plus", repr(semiring), text="ij,j->i", operands=(A, x), semiring=semiring)


def test_errors_are_the_same_under_jit():
    with pytest.raises(ShapeError, match="7 in dimension 1 of operand A"):
        jax.jit(lambda A, x: jsparse.einsum("ij,j->i", A, x))(A, x[:6])
    with pytest.raises(PatternError, match="nse="):
        jax.jit(lambda A: jsparse.einsum("ij,kj->ik", A, A))(A.dynamic())


@pytest.mark.parametrize(
    "make, error, message",
    [
        (lambda: SparseTensor.from_coords([[5], [0]], [1.0], (5, 7)), PatternError, r"\[0, 5\), but entry 0 has 5"),
        (lambda: SparseTensor.from_coords([[0], [-1]], [1.0], (5, 7)), PatternError, r"\[0, 7\), but entry 0 has -1"),
        (lambda: Pattern((2, 3), "csr", ([0, 2, 1], [0, 1])), PatternError, "pointers"),
        (lambda: Pattern((2, 3), "csr", ([0, 1, 5], [0, 1])), PatternError, "pointers"),
        (lambda: Pattern((2, 3), "csr", ([0, 1], [0])), PatternError, "pointers"),
        (lambda: Pattern((2, 3), "csr", ([0, 1, 2], [0, 3])), PatternError, "3"),
        (lambda: Pattern((2, 3), "csr", ([0, 2, 2], [1, 1])), PatternError, "1"),
        (lambda: A.asformat("nonsense"), FormatError, "nonsense"),
    ],
)
def test_operands_that_cannot_be_made(make, error, message):
    with pytest.raises(error, match=message):
        make()
