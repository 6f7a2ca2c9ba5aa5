"""The parser of tensor index notation. It makes a `Statement`.

    statement := access ("=" | "+=" | "min=" | "max=") value

`access.py` defines `access`, and `expression.py` defines `value`.

Names are ASCII identifiers. A name outside brackets denotes a tensor. A name inside brackets denotes an index variable,
unless brackets follow it: then it denotes a tensor of integers. The same name may denote a tensor and an index
variable.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from jsparse.base.tokens import Reader
from jsparse.errors import SubscriptError, shorten
from jsparse.notation.access import read_access
from jsparse.notation.assignment import Access
from jsparse.notation.expression import Expression, error_at_next
from jsparse.notation.statement import Operator, Product, Statement
from jsparse.notation.terms import as_products, base_and_exponent

_EXAMPLE = "'y[i] = b[i] - A[i, j] * x[j]'"

# ASCII only: Unicode letters that look alike would silently name different tensors.
_TOKEN = re.compile(
    r"""(?P<number> (?: [0-9]+ (?:\.[0-9]*)? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? )
      | (?P<name>   [A-Za-z_][A-Za-z0-9_]* )
      | (?P<symbol> \*\* | // | [-+*/=<>!]= | [-+*/=<>,()\[\]] )
      | (?P<other>  [^ \t\r\n] )""",
    re.VERBOSE,
)


def parse_statement(text: str, sized: bool = False) -> Statement:
    """Read one statement, such as "y[i] = b[i] - A[i, j] * x[j]".

    Products are distributed over sums. Like terms are not combined.

    Args:
        sized: the target's shape is known, so its indices need not appear in any term.

    Raises:
        SubscriptError: text outside the grammar; an index that appears twice in the target, or (unless `sized`) in no
            term; a tensor with two different ranks, or on both sides; an index that is summed by '=' but occurs only
            in calls. The message points at the error.
        NotYetSupportedError: too many terms or factors, or too deep a nesting of parentheses or accesses.
    """
    if not isinstance(text, str):
        raise SubscriptError(
            f"Expected a statement as text such as {_EXAMPLE}, but it is of type {type(text).__name__}. Pass tensors "
            "by name after it."
        )
    reader = _read_tokens(text)
    token = reader.peek()
    if token.kind != "name":
        raise reader.error(token, f"Expected a statement such as {_EXAMPLE}, with its target first, but got {token}")
    target = read_access(reader)
    seen: set[str] = set()
    for token in target.variables:
        if token.text in seen:
            message = (
                f"Expected each index of the target once, but {token} appears again; only terms can have diagonals"
            )
            raise reader.error(token, message)
        seen.add(token.text)
    operator = _operator(reader)
    expression = Expression(reader, target.token.text)
    for read in target.nested:
        expression.check(read)
    terms = expression.value()
    if reader.peek().kind != "end":
        raise error_at_next(reader, "an operator or the end")
    carried = expression.carried | {v for read in target.nested for v in read.access.variables()}
    for token in target.variables:
        if token.text not in carried and not sized:
            message = f"Expected each index of the target in some term, but {token} is in none"
            raise reader.error(token, f"{message}; pass shape= to repeat the result along it")
    products = as_products(terms)
    if operator == "=":
        _check_sums(expression, target.access, products)
    return Statement(target.access, products, operator, tuple(call for call, _ in expression.calls.values()))


def _read_tokens(text: str) -> Reader:
    """Return a reader of the tokens of a statement. Raises SubscriptError if a character begins no token."""
    reader = Reader(text, _TOKEN)
    for token in reader.tokens:
        if token.kind == "other":
            name = unicodedata.name(token.text, f"U+{ord(token.text):04X}")
            message = "Expected ASCII letters, digits, '_' and the symbols + - * / = < > , ( ) [ ], but got"
            raise reader.error(token, f"{message} {token.text!a} ({name})")
    return reader


def _check_sums(expression: Expression, target: Access, products: Sequence[Product]) -> None:
    """Raise SubscriptError if an index that a term sums occurs only in calls.

    It is then unclear whether to sum the value of the call or its argument.
    """
    for product in products:
        outside = {v for factor in product.factors if not factor.is_call for v in factor.variables()}
        for factor in filter(lambda factor: factor.is_call, product.factors):
            name, _ = base_and_exponent(factor.tensor)
            for v in () if name in expression.powers else factor.variables():
                if v not in outside and v not in target.variables():
                    what = f"Expected '{v}', which is summed, in a factor outside {shorten(name, 60)} too"
                    why = "'=' does not say whether its values or its arguments are summed"
                    advice = "Write '+=' to sum its values, or sum its arguments in an earlier statement"
                    raise expression.reader.error(expression.calls[name][1], f"{what}: {why}. {advice}")


def _operator(reader: Reader) -> Operator:
    token = reader.peek()
    if token.text in ("min", "max") and reader.peek(1).text == "=":
        reader.next(), reader.next()
        return "min=" if token.text == "min" else "max="
    if reader.take("+="):
        return "+="
    if reader.take("=") is None:
        message = f"Expected '=' after the target (or '+=', 'min=', 'max='), as in {_EXAMPLE}, but got {token}"
        raise reader.error(token, message)
    return "="
