"""Checks first and second derivatives of random programs, and of batches of them, against difference quotients.

Transposes in one operand, in which the program is linear, are checked against vjp.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.test_util import check_grads
from programs.check import unoptimised
from programs.dynamic import (
    Dynamic,
    drawn,
    function_of,
    is_linear_in,
    needs_static,
    operands_of,
    stacked_of,
    tables_of,
    thinned,
    without_composed_result,
)
from programs.evaluation import Evaluation
from programs.indirection import Indirect
from programs.program import DenseOperand, Program, SparseOperand

from jsparse import NotYetSupportedError, SparseTensor

__all__ = ["check_derivatives"]

STEP = 1e-5  # of difference quotients, whose error is STEP² times the third derivative
LARGEST = 400  # the most numbers in a program's operands: the error of a difference quotient grows with sums


def check_derivatives(program: Program | Evaluation) -> bool:
    """Raise AssertionError unless first and second derivatives agree with difference quotients, and transposes with
    vjp. False if there is nothing to differentiate, the program is no polynomial, or operands have to be static."""
    if isinstance(program, Program) and not program.ring.is_linear:
        return False
    try:
        return _agree(program)
    except NotYetSupportedError as error:
        if needs_static(error):
            return False
        raise


def _agree(program: Program | Evaluation) -> bool:
    rng = np.random.default_rng((*program.seed, 5))
    program = without_composed_result(_double(program))
    how = (drawn(program, rng) if rng.random() < 0.5 else None) or _known(program)
    batched = any(how.other) and rng.random() < 0.5
    programs = [program, thinned(program, how, rng)] if batched else [program]
    tables = tables_of(program)
    with jax.enable_x64(True):
        operands = stacked_of(programs, how)
        taken = [n for n in range(len(operands)) if n not in tables]
        leaves = [_drawn(_numbers(operands[n]), rng) for n in taken]
        if not any(x.size for x in leaves) or sum(x.size for x in leaves) > LARGEST:
            return False
        run = function_of(programs, how)
        run = jax.vmap(run, how.axes) if batched else run

        def f(*numbers: jax.Array) -> jax.Array:
            given = list(operands)
            for number, x in zip(taken, numbers, strict=True):
                given[number] = _with_numbers(operands[number], x)
            return _numbers(run(*(x for x, known in zip(given, how.known, strict=True) if not known)))

        with unoptimised():
            check_grads(jax.jit(f), leaves, order=2, modes=("fwd", "rev"), eps=STEP)
            linear = [n for n, number in enumerate(taken) if is_linear_in(program, number) and leaves[n].size]
            if linear:
                _check_transpose(f, [_whole(x, rng) for x in leaves], int(rng.choice(linear)), rng)
    return True


def _check_transpose(
    f: Callable[..., jax.Array], leaves: list[jax.Array], number: int, rng: np.random.Generator
) -> None:
    """Check the transpose in one operand, and the transpose of that. The function is plain, compiled or checkpointed.

    All numbers are small integers, so results are exact.
    """

    def of_one(x: jax.Array) -> jax.Array:
        return f(*leaves[:number], x, *leaves[number + 1 :])

    wrapped = (of_one, jax.jit(of_one), jax.checkpoint(of_one))[rng.integers(3)]

    def transposed(cotangent: jax.Array) -> jax.Array:
        return jax.linear_transpose(wrapped, leaves[number])(cotangent)[0]

    @jax.jit
    def results(x: jax.Array, cotangent: jax.Array) -> list[jax.Array]:
        once, twice = transposed(cotangent), jax.linear_transpose(transposed, cotangent)(x)[0]
        return [once, jax.vjp(of_one, x)[1](cotangent)[0], twice, jax.jvp(of_one, (x,), (x,))[1]]

    like = jax.eval_shape(of_one, leaves[number])
    once, pulled_back, twice, pushed = results(leaves[number], _whole(jnp.ones(like.shape, like.dtype), rng))
    np.testing.assert_array_equal(once, pulled_back, err_msg=f"transposed in operand {number}")
    np.testing.assert_array_equal(twice, pushed, err_msg=f"transposed twice in operand {number}")


def _double(program: Program | Evaluation) -> Program | Evaluation:
    """The program in double precision, except for tables."""

    def double(x: SparseOperand | DenseOperand) -> SparseOperand | DenseOperand:
        return replace(x, dtype="float64", values=tuple(complex(v).real for v in x.values))

    if isinstance(program, Program):
        return replace(program, operands=tuple(map(double, program.operands)))
    tables = {name for name, _ in program.tables} if isinstance(program, Indirect) else set()
    tensors = tuple((name, x if name in tables else double(x)) for name, x in program.tensors)
    out = replace(program, tensors=tensors)
    if isinstance(out, Indirect) and out.before is not None:
        return replace(out, before=double(out.before))
    return out


def _known(program: Program | Evaluation) -> Dynamic:
    """The case in which all patterns and tables are static."""
    count, tables = len(operands_of(program)), tables_of(program)
    nothing = (False,) * count
    return Dynamic((None,) * count, nothing, tuple(n in tables for n in range(count)), nothing, 0, False)


def _whole(x: jax.Array, rng: np.random.Generator) -> jax.Array:
    """Random small integers, but 0 where `x` is 0."""
    return jax.device_put((rng.integers(1, 4, x.shape) * np.sign(x)).astype(x.dtype))


def _drawn(x: jax.Array, rng: np.random.Generator) -> jax.Array:
    """Random real numbers below 1, but 0 where `x` is 0, as in unused slots."""
    return jax.device_put(rng.uniform(-1, 1, x.shape) * (np.asarray(x) != 0))


def _numbers(x: object) -> jax.Array:
    return x.values if isinstance(x, SparseTensor) else jnp.asarray(x)


def _with_numbers(x: object, numbers: jax.Array) -> object:
    return type(x)._wrap(numbers, x.pattern) if isinstance(x, SparseTensor) else numbers
