"""What `autotune` tries and chooses. A clock that steps advance replaces the real one."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

import jsparse
from jsparse.ops import autotune as module

PRODUCT, STATEMENT = "ij,jk->ik", "C[i,k] = A[i,j] * X[j,k]"


def matrix(rows=60, columns=50, density=0.2, seed=0):
    return sp.random(rows, columns, density, format="csr", dtype=np.float32, random_state=seed)


@pytest.fixture
def operands():
    return jsparse.asarray(matrix()), jnp.asarray(np.random.default_rng(0).standard_normal((50, 16)), jnp.float32)


@pytest.fixture
def timed(monkeypatch):
    """Let programs take the seconds that a function of their trial says. Returns all programs that were compiled."""
    now, programs, compile_program = [0.0], [], module._program

    def with_times(seconds):
        def program(*arguments):
            made = compile_program(*arguments)
            programs.append(made)
            cost = seconds(made.trial([1.0], [1.0]))

            def step():
                now[0] += cost
                return made.step()

            return made._replace(step=step)

        monkeypatch.setattr(module, "_program", program)
        monkeypatch.setattr(module, "_clock", lambda: now[0])
        monkeypatch.setattr(module, "DEAR", float("inf"))
        return programs

    return with_times


def test_every_trial_computes_the_same(operands, timed):
    A, X = operands
    programs = timed(lambda trial: 1e-3)
    tuned = jsparse.autotune(PRODUCT, A, X, budget=1)
    assert len(programs) > 3
    assert {("A", "csr"), ("A", "csc")} <= {pair for trial in tuned.trials for pair in trial.formats}
    for program in programs:
        np.testing.assert_allclose(program.step(), matrix() @ X, rtol=1e-4, atol=1e-5)


def test_the_default_stays_unless_a_trial_saves_more_than_noise(operands, timed):
    timed(lambda trial: 0.98e-3 if trial.schedules else 1e-3)
    tuned = jsparse.autotune(PRODUCT, *operands, budget=1)
    assert tuned.best is tuned.trials[0]
    assert tuned.schedule is None
    assert tuned.best.ratio == 1


def test_the_default_stays_if_time_is_too_short_to_be_sure(operands, timed):
    timed(lambda trial: 1.0 if trial.schedules else 2.0)
    tuned = jsparse.autotune(PRODUCT, *operands, budget="1ms")
    assert tuned.best is tuned.trials[0]


@pytest.mark.parametrize("statement", [PRODUCT, STATEMENT])
def test_the_fastest_schedule_wins(operands, timed, statement):
    timed(lambda trial: 1e-3 if trial.schedules and trial.formats[0] == ("A", "csr") else 2e-3)
    named = dict(zip("AX", operands, strict=True))
    call = (lambda **k: jsparse.autotune(statement, **named, **k)) if "=" in statement else None
    tuned = call(budget="1s") if call else jsparse.autotune(statement, *operands, budget="1s")
    assert tuned.schedule is not None
    assert tuned.formats == {"A": "csr"}
    assert tuned.best.ratio == pytest.approx(0.5)


def test_the_fastest_formats_win(operands, timed):
    timed(lambda trial: 1e-3 if trial.formats[0] == ("A", "csc") else 2e-3)
    tuned = jsparse.autotune(PRODUCT, *operands, budget=1)
    assert tuned.formats == {"A": "csc"}


def test_blocks_are_tried_if_they_are_filled(timed):
    A = jsparse.asarray(np.kron(np.eye(16), np.ones((8, 8))).astype(np.float32), format="csr")
    timed(lambda trial: 1e-3)
    tuned = jsparse.autotune("ij,j->i", A, np.ones(128, np.float32), budget=1)
    assert {"bsr(8, 8)", "csr"} <= {format for trial in tuned.trials for _, format in trial.formats}


def test_tensors_on_one_pattern_are_converted_together(operands, timed):
    A, X = operands
    timed(lambda trial: 1e-3)
    tuned = jsparse.autotune("y[i,k] = A[i,j] * X[j,k] + 2 * B[i,j] * X[j,k]", A=A, B=2 * A, X=X, budget=1)
    assert all(len({format for _, format in trial.formats}) == 1 for trial in tuned.trials)


def test_slow_programs_are_dropped(operands, timed):
    calls = []

    def seconds(trial):
        calls.append(trial)
        return 10e-3 if trial.formats[0] == ("A", "csc") else 1e-3

    timed(seconds)
    tuned = jsparse.autotune(PRODUCT, *operands, budget=2)
    assert all(trial.ratio == pytest.approx(10) for trial in tuned.trials if trial.formats[0] == ("A", "csc"))


def test_dynamic_tensors_keep_their_format(operands, timed):
    A, _ = operands
    timed(lambda trial: 1e-3)
    tuned = jsparse.autotune("ij,ik->jk", A.dynamic(nse=700), jnp.ones((60, 16), jnp.float32), budget=1)
    assert {format for trial in tuned.trials for _, format in trial.formats} == {A.format.name}


def test_tables_of_indices_are_known(timed):
    timed(lambda trial: 1e-3)
    rows = np.array([0, 2, 2, 1])
    A = jsparse.asarray(matrix(3, 5))
    tuned = jsparse.autotune("y[p,k] = A[rows[p],j] * X[j,k]", A=A, rows=rows, X=np.ones((5, 8), np.float32), budget=1)
    assert tuned.trials[0].formats == (("A", "csr"),)


def test_new_patterns_are_tried_in_other_formats(operands, timed):
    A, _ = operands
    timed(lambda trial: 1e-3)
    tuned = jsparse.autotune("ij,kj->ik", A, 2 * A, budget=1)
    assert not any(trial.schedules for trial in tuned.trials)
    assert len(tuned.trials) > 1


def test_the_table(operands, timed):
    timed(lambda trial: 1e-3 if trial.schedules else 2e-3)
    tuned = jsparse.autotune(PRODUCT, *operands, budget=1)
    assert str(tuned).count("\n") == len(tuned.trials) + 1
    assert tuned._repr_html_().count("<tr>") == len(tuned.trials) + 1
    assert "0.50 of the default" in repr(tuned)


@pytest.mark.parametrize(("budget", "seconds"), [("500ms", 0.5), ("1.5 s", 1.5), ("2min", 120), (3, 3), (0.25, 0.25)])
def test_budgets(budget, seconds):
    assert module._seconds(budget, PRODUCT) == seconds
