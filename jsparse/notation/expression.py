"""The parser of a statement's right-hand side.

    value   := sum [comparison sum]
    sum     := ["-"] product (("+" | "-") product)*
    product := power ("*" power | "/" power)*
    power   := factor ["**" ["-"] number]
    factor  := number | access | call | "(" value ")"
    call    := function "(" value ("," value)* ")"

A power of a tensor is taken element by element. Outside of calls, products are distributed over sums. Four kinds of
expression are not distributed. Each becomes one factor, which is represented as a call: a sum to a power that is not a
positive integer, a divisor that is a sum, a comparison, and a function with its arguments. In the arguments of calls no
product is distributed. The power 0 of a factor is the call pow(factor, 0).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from jsparse.base.tokens import Reader, Token
from jsparse.errors import SubscriptError
from jsparse.notation.access import ParsedAccess, read_access
from jsparse.notation.assignment import Access, IndexVar
from jsparse.notation.functions import COMPARISONS, FUNCTIONS
from jsparse.notation.statement import Call
from jsparse.notation.terms import (
    Number,
    Terms,
    as_number,
    as_products,
    bound_denominator,
    is_finite,
    power_of,
    read_number,
    scale_terms,
    times,
)

MAX_NESTING = 100  # nested parentheses
MAX_TERMS = 1000  # after products are distributed over sums
MAX_FACTORS = 100  # in one term

_ONE_COMPARISON = "Expected only one comparison: to test two conditions, write a product, (A[i] > 0) * (A[i] < 1)"

_INSTEAD = {
    "[": "Expected all indices of a tensor in one pair of brackets, as in A[i, j]",
    "(": "Expected an operator before '('; indices go in brackets, as in A[i]",
    "]": "Expected no ']', because no '[' is open",
    ")": "Expected no ')', because no '(' is open",
    ",": "Expected ',' only between indices in brackets and between arguments of functions",
    "=": "Expected only one '=', after the target",
    "**": "Expected only one exponent: write the power of a power as one number",
    "//": "Expected '/' instead of '//': quotients are not rounded",
    **dict.fromkeys(COMPARISONS, _ONE_COMPARISON),
}


class Expression:
    """A parser of a statement's right-hand side, with one method for each rule of the grammar.

    No tensor on this side may have the name of the target.

    Attributes:
        calls: the text of each call → the call, and the token at which it begins.
    """

    def __init__(self, reader: Reader, target: str) -> None:
        self.reader = reader
        self.target = target
        self.ranks: dict[str, int] = {}
        self.carried: set[IndexVar] = set()  # the index variables of all terms
        self.calls: dict[str, tuple[Call, Token]] = {}
        self.powers: set[str] = set()  # the calls that stand for powers of tensors, which '=' sums as it sums tensors
        self.nesting = 0
        self.depth = 0  # of arguments

    def value(self) -> Terms:
        start = self.reader.peek()
        left = self.sum()
        symbol = self.reader.take(*COMPARISONS)
        return self.add_call(symbol.text, (left, self.sum()), start) if symbol else left

    def sum(self) -> Terms:
        start = self.reader.peek()
        terms = self.product_with_sign(self.reader.take("-"))
        while operator := self.reader.take("+", "-"):
            terms += self.product_with_sign(operator)
            self.limit(len(terms), MAX_TERMS, "terms once products are distributed", operator)
        return terms if any(factors for _, factors in terms) else [(self.total(terms, start), ())]

    def total(self, numbers: Terms, token: Token) -> Number:
        total: Number = Fraction(0)
        for number, _ in numbers:
            total = self.check_finite(total + number, token)
        return total

    def product_with_sign(self, sign: Token | None) -> Terms:
        return scale_terms(self.product(), Fraction(-1 if sign and sign.text == "-" else 1))

    def product(self) -> Terms:
        start = self.reader.peek()
        terms = self.power()
        scale: Number = Fraction(1)  # applied once at the end, so that n numbers and m terms take n + m steps, not n·m
        while operator := self.reader.take("*", "/"):
            token = self.reader.peek()
            right = self.power()
            number = as_number(right)
            if operator.text == "/" and number is not None:
                if not number:
                    raise self.reader.error(token, "Expected a divisor other than zero")
                scale = self.check_finite(scale / number, operator)
            elif operator.text == "/":
                terms = self.distribute(terms, self.raise_terms(right, Fraction(-1), token, token), operator)
            elif number is not None:
                scale = self.check_finite(scale * number, operator)
            else:
                terms = self.distribute(terms, right, operator)
        if self.depth and scale != 1:
            terms = self.join_terms(terms, start)
        return [(self.check_finite(c, start), factors) for c, factors in scale_terms(terms, scale)]

    def power(self) -> Terms:
        start = self.reader.peek()
        terms = self.factor()
        operator = self.reader.take("**")
        return self.raise_terms(terms, self.exponent(), operator, start) if operator else terms

    def exponent(self) -> Number:
        sign = self.reader.take("-")
        token = self.reader.next()
        if token.kind != "number":
            message = f"Expected a number as the exponent after '**', but got {token}"
            raise self.reader.error(token, f"{message}; for tensors write pow(base, exponent)")
        return self.check_finite(read_number(token.text) * (-1 if sign else 1), token)

    def raise_terms(self, terms: Terms, exponent: Number, token: Token, start: Token) -> Terms:
        """Raise terms to a power. Each factor of a product is raised. A sum is multiplied out or becomes one factor."""
        is_whole = isinstance(exponent, Fraction) and exponent.denominator == 1 and exponent >= 1
        if len(terms) > 1 and is_whole and not self.depth:
            return self.multiply_out(terms, int(exponent), token)
        ((coefficient, factors),) = self.join_terms(terms, start)
        if not coefficient and exponent <= 0:
            raise self.reader.error(token, "Expected a base other than zero")
        try:
            number = coefficient**exponent
        except OverflowError:
            number = float("inf")
        if isinstance(number, complex):
            raise self.reader.error(token, "Expected no root of a negative number")
        powers = tuple(power_of(access, exponent) if exponent else self.ones(access, start) for access in factors)
        return [(self.check_finite(number, token), powers)]

    def ones(self, access: Access, token: Token) -> Access:
        """Return the power 0 of a factor: a call, because it is 1 where the factor is 0 and where it is not stored."""
        base: Terms = [(Fraction(1), (access,))]
        ((_, (power,)),) = self.add_call("pow", (base, [(Fraction(0), ())]), token)
        if not access.is_call:
            self.powers.add(power.tensor)
        return power

    def multiply_out(self, terms: Terms, exponent: int, token: Token) -> Terms:
        self.limit(exponent, MAX_FACTORS, "factors in a term", token)
        result = terms
        for _ in range(exponent - 1):
            result = self.distribute(result, terms, token)
        return result

    def distribute(self, left: Terms, right: Terms, operator: Token) -> Terms:
        if self.depth:
            left, right = self.join_terms(left, operator), self.join_terms(right, operator)
        self.limit(len(left) * len(right), MAX_TERMS, "terms once products are distributed", operator)
        terms = [(self.check_finite(c, operator), factors) for c, factors in times(left, right)]
        self.limit(max(len(factors) for _, factors in terms), MAX_FACTORS, "factors in a term", operator)
        return terms

    def join_terms(self, terms: Terms, token: Token) -> Terms:
        """Combine terms into one term. A sum of several terms becomes one factor in the form of a call."""
        return self.add_call("", (terms,), token) if len(terms) > 1 else terms

    def factor(self) -> Terms:
        before, token = self.reader.previous(), self.reader.peek()
        if token.kind == "number":
            self.reader.next()
            return [(self.check_finite(read_number(token.text), token), ())]
        if token.kind == "name":
            return self.call() if self.reader.peek(1).text == "(" else [(Fraction(1), (self.access(),))]
        if token.text == "(":
            self.open()
            terms = self.value()
            self.close("an operator or ')'")
            return terms
        if token.text in ("]", "="):
            raise error_at_next(self.reader, "")
        advice = "; put negative factors in parentheses, as in 2 * (-A[i])" if token.text == "-" else ""
        message = f"Expected a tensor, a number or '(' after {before}, but got {token}{advice}"
        raise self.reader.error(token, message)

    def open(self) -> None:
        opened = self.reader.next()
        self.nesting += 1
        self.limit(self.nesting, MAX_NESTING, "nested parentheses", opened)

    def close(self, expected: str) -> None:
        if self.reader.take(")") is None:
            raise error_at_next(self.reader, expected)
        self.nesting -= 1

    def call(self) -> Terms:
        token = self.reader.next()
        if token.text not in FUNCTIONS:
            message = f"Expected a function, but got {token}; indices go in brackets, as in A[i]. There are "
            raise self.reader.error(token, message + " ".join(sorted(FUNCTIONS)))
        self.open()
        self.depth += 1
        arguments = [self.value()]
        while self.reader.take(","):
            arguments.append(self.value())
        self.depth -= 1
        self.close("an operator, ',' or ')'")
        least, most = FUNCTIONS[token.text].arity
        if not least <= len(arguments) <= most:
            counts = str(least) if least == most else f"{least} to {most}"
            message = f"Expected {token} of {counts} argument{'s' * (counts != '1')}, but there are {len(arguments)}"
            raise self.reader.error(token, message)
        return self.add_call(token.text, arguments, token)

    def add_call(self, function: str, arguments: Sequence[Terms], token: Token) -> Terms:
        call = Call(function, tuple(as_products(terms) for terms in arguments))
        self.calls.setdefault(str(call), (call, token))
        return [(Fraction(1), (Access(str(call), call.variables()),))]

    def access(self) -> Access:
        parsed = read_access(self.reader)
        self.check(parsed)
        self.carried.update(parsed.access.variables())
        return parsed.access

    def check(self, parsed: ParsedAccess) -> None:
        """Raise SubscriptError if a tensor has the name of the target, or another rank than in an earlier access."""
        for read in parsed.every():
            token, count = read.token, len(read.access.indices)
            if token.text == self.target:
                message = f"Expected {token}, the target, on the left only; rename one of the two"
                raise self.reader.error(token, message)
            rank = self.ranks.setdefault(token.text, count)
            if rank != count:
                message = f"Expected {token} to have the same number of indices as before, {rank}, but it has {count}"
                raise self.reader.error(token, message)

    def check_finite(self, number: Number, token: Token) -> Number:
        if not is_finite(number):
            raise self.reader.error(token, "Expected numbers that a float64 holds, but the value here is too large")
        return bound_denominator(number)

    def limit(self, count: int, most: int, what: str, token: Token) -> None:
        if count > most:
            message = f"Expected at most {most} {what}, but there are {count}: compute a part in a separate statement"
            raise self.reader.not_yet(token, message)


def error_at_next(reader: Reader, expected: str) -> SubscriptError:
    """Return the error that points at the next token and says what was `expected` there."""
    token = reader.peek()
    advice = "; products are written with '*'" if token.kind in ("name", "number") else ""
    return reader.error(token, _INSTEAD.get(token.text, f"Expected {expected}, but got {token}{advice}"))
