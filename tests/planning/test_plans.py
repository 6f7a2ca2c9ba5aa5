"""Plans predict the signatures of values, and one plan serves all operands of the same signatures."""

import jax
import numpy as np
import pytest

import jsparse
from jsparse._compat import context
from jsparse.planning import execute, planned, planner
from jsparse.planning.plan import AssembledPattern, Convert, DenseOutput, OnPattern, SumOfProducts
from jsparse.planning.planned import plan_einsum
from jsparse.planning.signature import places_of, signature

RNG = np.random.default_rng(3)
ORDERED = "(i, j) -> (j : compressed, i : compressed)"


def sparse(*shape, format=None, density=0.3, dtype=np.float32, dynamic=False):
    x = np.where(RNG.random(shape) < density, RNG.integers(1, 4, shape), 0).astype(dtype)
    A = jsparse.asarray(x, format)
    return A.dynamic() if dynamic else A


def dense(*shape, dtype=np.float32):
    return RNG.integers(-2, 3, shape).astype(dtype)


PROGRAMS = {
    "steps of static ones": ("ij,jk,kl->il", lambda: [sparse(40, 50), sparse(50, 40), sparse(40, 30, density=0.9)]),
    "a dense step": ("ij,jk,kl->il", lambda: [sparse(90, 90), dense(90, 8), dense(8, 70)]),
    "a chain of six": (
        "ij,jk,kl,lm,m,im->i",
        lambda: [sparse(60, 50), sparse(50, 60), sparse(60, 40), dense(40, 30), dense(30), dense(60, 30)],
    ),
    "narrow floats": (
        "ij,jk,kl->il",
        lambda: [sparse(60, 60, dtype=jax.numpy.bfloat16), dense(60, 8), dense(8, 50)],
    ),
    "steps of dynamic ones": (
        "ij,jk,kl->il",
        lambda: [sparse(30, 40, dynamic=True, density=0.1), dense(40, 8), dense(8, 50)],
    ),
    "a step on an operand's pattern": (
        "ij,i,ij,jk->ik",
        lambda: [A := sparse(50, 60, dynamic=True), dense(50), A.with_values(A.values + 1), dense(60, 40)],
    ),
    "contradicting orders": (
        "ij,jk->ik",
        lambda: [sparse(20, 30, dynamic=True), sparse(30, 25, format=ORDERED, dynamic=True)],
    ),
    "contradicting orders of three": (
        "ij,ij,ij->ij",
        lambda: [sparse(20, 30, dynamic=True), sparse(20, 30, format=ORDERED, dynamic=True), dense(20, 30)],
    ),
    "blocks": (
        "ijk,ik,ij->ij",
        lambda: [
            sparse(9, 8, 4, format="(i, j, k) -> (i : dense, j : compressed, k : dense)", dynamic=True),
            dense(9, 4),
            sparse(9, 8, format="(i, j) -> (j : compressed, i : compressed)", dynamic=True),
        ],
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_as_predicted(name, monkeypatch):
    """The plan predicts shape, dtype and pattern of each value, and which values share index arrays."""
    subscripts, make = PROGRAMS[name]
    operands = make()
    planners, values = [], []
    init, run, convert, wrap = planner.Planner.__init__, execute._sum, execute.in_format, execute._on_levels

    def kept(self, *args):
        planners.append(self)
        init(self, *args)

    def recorded(work):
        return lambda *args: values.append(work(*args)) or values[-1]

    monkeypatch.setattr(planner.Planner, "__init__", kept)
    monkeypatch.setattr(execute, "_sum", recorded(run))
    monkeypatch.setattr(execute, "in_format", recorded(convert))
    monkeypatch.setattr(execute, "_on_levels", recorded(wrap))
    jsparse.clear_cache()
    made = plan_einsum(subscripts, operands, None, nse=2000)
    out = made.run()
    assert len(values) == len(made.plan.instructions)
    every = [*made.operands, *values]
    found = [signature(x, on) for x, on in zip(every, places_of(every), strict=True)]
    predicted = planners[0].values
    for got, want in zip(found, predicted, strict=True):
        assert (got.shape, got.dtype, got.weak) == (want.shape, want.dtype, want.weak)
        assert (got.stored is None) == (want.stored is None)
        assert got.stored is None or (got.stored.pattern, got.stored.derived) == (
            want.stored.pattern,
            want.stored.derived,
        )
    groups = [
        [other.stored is not None and other.stored.group == one.stored.group for other in signatures]
        for signatures in (found, predicted)
        for one in signatures
        if one.stored is not None
    ]
    assert groups[: len(groups) // 2] == groups[len(groups) // 2 :]
    whole = [np.asarray(x.todense() if isinstance(x, jsparse.SparseTensor) else x).astype(np.float64) for x in operands]
    got = np.asarray(out.todense() if isinstance(out, jsparse.SparseTensor) else out)
    np.testing.assert_array_equal(got, np.einsum(subscripts, *whole).astype(got.dtype))


def test_kinds_of_outputs():
    A, B, x = sparse(20, 30), sparse(30, 20), dense(30)
    D = sparse(20, 30, dynamic=True)
    outputs = {
        "ij,j->i": (DenseOutput, [A, x]),
        "ij,j->ij": (OnPattern, [D, x]),
        "ij,jk->ik": (AssembledPattern, [A, B]),
    }
    for subscripts, (kind, operands) in outputs.items():
        (instruction,) = plan_einsum(subscripts, operands, None).plan.instructions
        assert isinstance(instruction, SumOfProducts)
        assert isinstance(instruction.output, kind)
    on = plan_einsum("ij,j->ij", [D, x], None).plan.result.output
    assert on.source == 0
    requested = plan_einsum("ij,j->ij", [dense(20, 30), x], D).plan.result.output
    assert requested.source is None


def test_a_shared_operand_is_converted_once():
    A, B = sparse(20, 30, dynamic=True), sparse(20, 30, format=ORDERED, dynamic=True)
    text = "C[i,j] = A[i,j] * B[i,j] + 2 * A[i,j] * B[i,j]"
    got = jsparse.evaluate(text, A=A, B=B)
    np.testing.assert_array_equal(got.todense(), 3 * np.asarray(A.todense()) * np.asarray(B.todense()))
    statement = jsparse.notation.parse_statement(text)
    plan = planned.plan_statement(text, statement, {"A": A, "B": B}, None, None).plan
    assert sum(isinstance(x, Convert) for x in plan.instructions) == 1


def test_only_loops_need_sorted_operands(monkeypatch):
    """Loops over the rows of both patterns would visit all pairs of rows. XLA's operations join entries."""
    A = sparse(300, 300, density=0.02, dynamic=True)

    def sorts(A):
        plan = plan_einsum("ij,kj->ik", [A, A], None, nse=9_000).plan
        return sum(isinstance(step, Convert) for step in plan.instructions)

    assert sorts(A) == 1
    with jsparse.config(backend="xla"):
        assert sorts(A) == 0
    placed, traced = jax.device_put(A, jax.devices("cpu")[0]), []
    monkeypatch.setattr(context, "default_platform", lambda: "cuda")
    assert sorts(A) == 0
    assert sorts(placed) == 1  # known operands are computed with where they are
    jax.eval_shape(lambda A: traced.append(sorts(A)), placed)
    assert traced == [0]
    monkeypatch.undo()
    with jax.default_device(jax.devices("cpu")[0]):
        assert sorts(A) == 1


def test_steps_are_planned_once(monkeypatch):
    """The second eager call of a program in steps plans nothing, though intermediate patterns no longer exist."""
    A, B, C = sparse(40, 50), sparse(50, 40), sparse(40, 30, density=0.9)
    jsparse.einsum("ij,jk,kl->il", A, B, C)
    monkeypatch.setattr(planner, "make_terms", None)
    jsparse.einsum("ij,jk,kl->il", A, B, C)


def test_one_statement_of_one_term_is_the_einsum():
    """The kernel rounds narrow floats, not a step after it."""
    A, x = sparse(20, 30, dtype=jax.numpy.bfloat16), dense(30, dtype=jax.numpy.bfloat16)
    text = "y[i] = A[i,j] * x[j]"
    statement = jsparse.notation.parse_statement(text)
    made = planned.plan_statement(text, statement, {"A": A, "x": x}, None, None).plan.result
    assert made.terms[0].spec.dtype is None
    assert made.dtype == jax.numpy.bfloat16
