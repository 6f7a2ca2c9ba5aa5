"""The constructors that fold constants, row by row, and that what they fold to has the same value."""

import pytest

from jsparse.compiler.dtypes import BOOL, I64, Type
from jsparse.compiler.kernel.algebra import add, block, both, ceil_div, const, floor_div, less, minimum, mul, sub, zero
from jsparse.compiler.kernel.interpret import _Machine
from jsparse.compiler.kernel.nodes import Binary, Bind, Block, Compare, Const, Var

X, Y, FLAG = Var("x"), Var("y"), Var("flag", BOOL)
TRUE, FALSE = Const(1, BOOL), Const(0, BOOL)


@pytest.mark.parametrize(
    "built, expected",
    [
        (add(const(0), X), X),
        (add(X, const(0)), X),
        (add(const(2), const(3)), const(5)),
        (add(X, Y), Binary("+", X, Y)),
        (sub(X, const(0)), X),
        (sub(const(5), const(3)), const(2)),
        (sub(const(0), X), Binary("-", const(0), X)),
        (mul(const(1), X), X),
        (mul(X, const(1)), X),
        (mul(const(0), X), const(0)),
        (mul(X, const(0)), const(0)),
        (mul(const(2), const(3)), const(6)),
        (floor_div(X, const(1)), X),
        (floor_div(const(7), const(2)), const(3)),
        (floor_div(X, const(2)), Binary("//", X, const(2))),
        (ceil_div(const(7), 2), const(4)),
        (ceil_div(const(8), 2), const(4)),
        (ceil_div(X, 1), X),
        (minimum(X, X), X),
        (minimum(const(4), const(3)), const(3)),
        (minimum(X, Y), Binary("min", X, Y)),
        (less(const(1), const(2)), TRUE),
        (less(const(2), const(2)), FALSE),
        (less(X, Y), Compare("<", X, Y)),
        (both(TRUE, FLAG), FLAG),
        (both(FLAG, TRUE), FLAG),
        (both(FALSE, FLAG), FALSE),
        (both(FLAG, FALSE), FALSE),
        (both(FLAG, FLAG), Binary("&", FLAG, FLAG)),
        (zero(Type("float32", 4)), Const(0, Type("float32", 4))),
    ],
    ids=str,
)
def test_row(built, expected):
    assert built == expected
    assert built.type == expected.type


def test_a_division_by_zero_is_left_to_the_run_time():
    assert floor_div(const(1), const(0)) == Binary("//", const(1), const(0))


@pytest.mark.parametrize("x", [0, 1, 2, 7])
@pytest.mark.parametrize("constant", [0, 1, 3])
def test_folding_keeps_the_value(x, constant):
    machine, c = _Machine({}, {}, False, None), const(constant)
    rows = [(add, "+"), (mul, "*"), (sub, "-"), (minimum, "min")]
    rows += [(floor_div, "//")] if constant else []
    for build, op in rows:
        for value in (X, const(x)):
            assert machine.value(build(value, c), {"x": x}) == machine.value(Binary(op, value, c), {"x": x}), op


def test_blocks_are_flat_and_a_block_of_one_is_that_one():
    one, two = Bind(X, const(1)), Bind(Y, const(2))
    assert block(one) is one
    assert block(block(one, two), block(), one) == Block((one, two, one))
    assert block() == Block(())


def test_constants_of_another_type_keep_it():
    assert add(Const(1, Type("int32")), Const(2, Type("int32"))).type == Type("int32")
    assert mul(const(3), const(3)).type == I64
