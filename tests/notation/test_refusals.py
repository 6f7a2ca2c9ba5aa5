"""Invalid tensor index notation: the error, its caret, and its message."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jsparse import JsparseError, NotYetSupportedError, SubscriptError
from jsparse.errors import LINE
from jsparse.notation import parse_statement

# The caret points at the character after '~'.
GRAMMAR = [
    ("~", "but got the end"),
    ("~  ", "but got the end"),
    ("C[i]~", "Expected '=' after the target .* but got the end"),
    ("C[i] ~+ A[i]", "Expected '=' after the target .* but got '\\+'"),
    ("C[i] ~A[i]", "but got 'A'"),
    ("C[i] ~== A[i]", "but got '=='"),
    ("C[i] ~-= A[i]", "but got '-='"),
    ("C[i]~, D[i] = A[i]", "but got ','"),
    ("C[i]~[j] = A[i,j]", "but got '\\['"),
    ("~= A[i]", "its target first, but got '='"),
    ("~(C[i]) = A[i]", "its target first, but got '\\('"),
    ("~2 = A", "its target first, but got '2'"),
    ("~-C[i] = A[i]", "its target first, but got '-'"),
    ("C[i~+1] = A[i]", "without arithmetic"),
    ("C[i] =~", "after '=', but got the end"),
    ("C[i] = ~+A[i]", "after '=', but got '\\+'"),
    ("C[i] = A[i] + ~* B[i]", "after '\\+', but got '\\*'"),
    ("C[i] = A[i] * ~-B[i]", "put negative factors in parentheses"),
    ("C[i] = A[i] - ~-B[i]", "put negative factors in parentheses"),
    ("C[i] = A[i] *~", "after '\\*', but got the end"),
    ("C[i] = (~)", "after '\\(', but got '\\)'"),
    ("C[i] = (A[i]~", "an operator or '\\)', but got the end"),
    ("C[i] = (A[i] ~B[i])", "an operator or '\\)', but got 'B'; products"),
    ("C[i] = A[i]~)", "no '\\(' is open"),
    ("C[i] = A[i]~]", "no '\\[' is open"),
    ("C[i] = ~]", "no '\\[' is open"),
    ("C[i] = A[i] ~B[i]", "products are written with '\\*'"),
    ("C[i] = 2 ~A[i]", "products are written with '\\*'"),
    ("C[i] = 1.5~.2 * A[i]", "but got '.2'"),
    ("C[i] = 2~e * A[i]", "but got 'e'"),
    ("C[i] = 2~(A[i])", "an operator before '\\('"),
    ("C[i] = ~A(i)", "but got 'A'; indices go in brackets, as in A\\[i\\]. There are abs .* where"),
    ("C[i] = A[i]~, B[i]", "only between indices in brackets and between arguments of functions"),
    ("C[i] = exp(~)", "after '\\(', but got '\\)'"),
    ("C[i] = exp(A[i]~", "an operator, ',' or '\\)', but got the end"),
    ("C[i] = exp(A[i] ~B[i])", "an operator, ',' or '\\)', but got 'B'; products"),
    ("C[i] = ~exp(A[i], B[i])", "'exp' of 1 argument, but there are 2"),
    ("C[i] = ~max(A[i])", "'max' of 2 to 100 arguments, but there are 1"),
    ("C[i] = exp[i]~(A[i])", "an operator before '\\('"),
    ("C[i] = exp(~*A[i])", "after '\\(', but got '\\*'"),
    ("C[i] = A[i] > 0 ~> B[i]", "only one comparison"),
    ("C[i] = (A[i] > 0) + 1 > 0 ~<= 1", "only one comparison"),
    ("C[i] = A[i] >~", "after '>', but got the end"),
    ("C[i] = A[i] ~! B[i]", "EXCLAMATION MARK"),
    ("C[i] ~<= A[i]", "but got '<='"),
    ("C[i] = exp(A[i]) ** ~B[i]", "for tensors write pow"),
    ("C[i] = exp(2 / ~0)", "other than zero"),
    ("C[i] = A[i] ~= B[i]", "only one '='"),
    ("C[i] = ~= B[i]", "only one '='"),
    ("C[i] = A[i]~[j]", "one pair of brackets"),
    ("C[i] = A[i] ** 2 ~** 2", "only one exponent"),
    ("C[i] = A[i] ~// 2", "quotients are not rounded"),
    ("C[i] = A[i~+1]", "after the index 'i', but got '\\+'; indices are variables, without arithmetic"),
    ("C[i] = A[~-i]", "without arithmetic"),
    ("C[i] = A[~0]", "slice the tensor"),
    ("C[i] = A[i ~j]", "',' or '\\]' after the index 'i', but got 'j'"),
    ("C[i] = A[i~", "but got the end"),
    ("C[i] = A[~", "but got the end"),
    ("C[i] = A[i~)", "but got '\\)'"),
    ("C[i,j] = A[i,~,j]", "after ',', but got ','"),
    ("C[i] = A[~,i]", "after '\\[', but got ','"),
    ("C[i] = A[i,~]", "after ',', but got '\\]'"),
    ("C = A[~]", "a tensor of order 0 has no brackets"),
    ("C[i] = A[~(i)]", "after '\\[', but got '\\('"),
    ("C[i] = ~\u0410[i]", "CYRILLIC CAPITAL LETTER A"),
    ("C[i] = A[~\u0131]", "DOTLESS I"),
    ("C[i] = A[i] ~\u2212 B[i]", "MINUS SIGN"),
    ("C[i]~\u00a0= A[i]", "NO-BREAK SPACE"),
    ("C[i] = A[i] ~# B", "NUMBER SIGN"),
    ("C[i] = A[i] ~@ B", "COMMERCIAL AT"),
    ("C[i] = A~.T[i]", "FULL STOP"),
    ("C[i] = A[i]~\x00", "U\\+0000"),
    ("C[i] = A[i] ** ~B[i]", "a number as the exponent after"),
    ("C[i] = A[i] / ~0", "other than zero"),
    ("C[i] = A[i] / ~(1 - 1.0)", "other than zero"),
    ("C[i] = ~1e999 * A[i]", "numbers that a float64 holds"),
    ("C[i] = A[i] * 1e300 ~* 1e300", "numbers that a float64 holds"),
    ("C[i] = A[i] + 2 * (~1e308 + 1e308)", "numbers that a float64 holds"),
    ("C[i] = ~" + "9" * 5000 + " * A[i]", "numbers that a float64 holds"),
]  # fmt: skip
MEANING = [
    ("C[i,~i] = A[i]", "'i' appears again"),
    ("C[i,~j] = A[i] + 1", "'j' is in none"),
    ("C[~i] = 3", "'i' is in none"),
    ("C[i] = A[i] + ~A[i,j]", "as before, 1, but it has 2"),
    ("C[i] = A[i] * ~A", "as before, 1, but it has 0"),
    ("C[i] = A[i] + ~C[i]", "the target, on the left only"),
    ("C[r[i]] = A[~C[i]]", "the target, on the left only"),
    ("C[r[i]] = A[i] + ~r[i,j]", "as before, 1, but it has 2"),
    ("C[r[s[i]]] = A[r[~s[i,j]]]", "as before, 1, but it has 2"),
    ("C[r[p],~j] = A[p]", "'j' is in none"),
    ("C[i] = B[i] - ~exp(A[i,j])", "'j', which is summed, in a factor outside exp\\(A\\[i, j\\]\\) too: .* '\\+='"),
    ("C[i] = ~exp(A[i,j]) * tanh(B[j])", "outside exp"),
    ("C[i] = x[j] * ~relu(A[i,j] * B[i,k])", "'k', which is summed"),
    ("C[i] = B[i] / ~(A[i,j] + B[i])", "outside \\(A"),
    ("C = ~A[i] > 0", "outside \\(A"),
    ("C[i] = exp(A[i] + ~A[i,j])", "as before, 1, but it has 2"),
    ("C[i] = exp(~C[i])", "the target, on the left only"),
]
LATER = [
    ("C = A[" + "r[" * 50 + "~r[i]" + "]" * 51, "at most 50 nested accesses"),
    ("C = " + "(" * 100 + "~(A" + ")" * 101, "at most 100 nested parentheses"),
    ("C = " + "(" * 100 + "~" + "(" * 99_900, "at most 100 nested parentheses"),
    ("C = " + "*".join(["(A+B)"] * 9) + "~*(A+B)", "at most 1000 terms"),
    ("C = A" + "+A" * 999 + "~+A", "at most 1000 terms"),
    ("C = A" + "*A" * 99 + "~*A", "at most 100 factors"),
    ("C = " + "exp(" * 100 + "exp~(A" + ")" * 101, "at most 100 nested parentheses"),
    ("C = exp(A" + "*A" * 99 + "~*A)", "at most 100 factors"),
]


@pytest.mark.parametrize(
    "error, marked, message",
    [
        *((SubscriptError, *row) for row in GRAMMAR + MEANING),
        *((NotYetSupportedError, *row) for row in LATER),
    ],
)
def test_a_caret_points_at_the_error(error, marked, message):
    text, column = marked.replace("~", ""), marked.index("~")
    with pytest.raises(error, match=message) as caught:
        parse_statement(text)
    *_, line, carets = str(caught.value).split("\n")
    shown = "".join(c if c.isprintable() else " " for c in text)
    if len(text) <= LINE:
        assert line == f"    {shown}"
        assert carets.rstrip("^") == "    " + " " * column
    else:  # a long text is cut around the error
        at = len(carets.rstrip("^"))
        before, behind = line[4:at].removeprefix("..."), line[at:].removesuffix("...")
        assert shown[:column].endswith(before)
        assert shown[column:].startswith(behind)
        assert len(before + behind) == LINE
    assert carets.endswith("^")
    assert len(str(caught.value)) <= 600


def test_the_limits_themselves_are_accepted():
    assert len(parse_statement("C = " + "(" * 100 + "A" + ")" * 100).terms) == 1
    assert len(parse_statement("C = A" + "+A" * 999).terms) == 1000
    assert len(parse_statement("C = A" + "*A" * 99).terms[0].factors) == 100
    assert len(parse_statement("C = " + "exp(" * 100 + "A" + ")" * 100).calls) == 100


@pytest.mark.parametrize("text", [None, 3, b"C = A", ["C = A"]])
def test_text_is_text(text):
    with pytest.raises(SubscriptError, match=f"but it is of type {type(text).__name__}"):
        parse_statement(text)


WORDS = [*"ABij()[]+-*/=, \n", "**", "min=", "C[i] = ", "A[i, j]", "x[j]", "2", "1e300", ".5", "0", "é", "1e-300", "/3"]
WORDS += ["exp(", "max(", "where(", ") > (", "<=", "(A[i] + x)"]


@given(st.one_of(st.text(max_size=30), st.lists(st.sampled_from(WORDS), max_size=25).map("".join)), st.booleans())
@example("1/A[i]", True)
@example("x[i]**2 * A[i, j]", True)
def test_any_other_text_raises_errors_of_jsparse(text, begun):
    text = f"C = {text}" if begun else text
    try:
        read = parse_statement(text)
    except JsparseError as error:
        *_, line, carets = str(error).split("\n")
        assert len(line) == len(text) + 4 or len(text) > LINE
        assert len(carets.rstrip("^")) <= len(line)
    else:
        assert parse_statement(str(read)) == read
