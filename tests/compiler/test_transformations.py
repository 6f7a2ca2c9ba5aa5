"""Each transformation: its effect on a nest, compared with golden files, and the reason for which it is refused."""

from pathlib import Path

import numpy as np
import pytest
from compiler.cases import dense, planned, sparse
from golden import compare
from programs.schedules import steps_of

import jsparse
from jsparse.compiler.schedule import Schedule
from jsparse.compiler.schedule.schedule import apply_schedule
from jsparse.compiler.schedule.transformations import TRANSFORMATIONS

GOLDEN = Path(__file__).parent / "golden_transformations"
A, X = sparse(40, 30), dense(30, 16)

FULL = "(i, j) -> (i : dense, j : dense)"
PRODUCT = ("ij,jk->ik", A, X)
LAYER = ("ij,jc,cf->if", A, dense(30, 5), dense(5, 16))
TRIANGLES = ("ij,ik,jk->", *(sparse(30, 30, seed=n) for n in (1, 2, 3)))
EXAMPLES = {
    "reorder": (PRODUCT, "reorder i k j"),
    "split": (PRODUCT, "split k 8"),
    "split-a-level": (PRODUCT, "split j 16"),
    "pos": (PRODUCT, "pos j\nsplit j 4"),
    "pos-and-a-full-level": (("ij,ij,j->i", A, sparse(40, 30, format=FULL), dense(30)), "pos j\nsplit j 4"),
    "fuse": (("ij,abj->abi", A, dense(3, 4, 30)), "reorder a b i j\nfuse a b"),
    "vectorize": (PRODUCT, "reorder i k j\nsplit k 8\nvectorize k"),
    "vectorize-positions": (("ij,j->i", A, dense(30)), "promote\nvectorize j 8"),
    "precompute": (("ij,ik->ik", A, dense(40, 16)), "precompute j"),
    "precompute-dense": (LAYER, "reorder i f j c\nprecompute c"),
    "promote": (PRODUCT, "reorder i k j\npromote"),
    "promote-reduced-lanes": (("ik,jk,ij->i", dense(40, 16), dense(30, 16), A), "split k 8\nvectorize k\npromote"),
    "cache_read": (
        PRODUCT,
        "split k 8\nvectorize k\nsplit j 16\nreorder k0 j0 i j\ncache_read B j0",
    ),
    "merge_by": (("ij,ij->", A, sparse(40, 30, seed=2)), "merge_by j P1"),
    "scatter": (TRIANGLES, "merge_by k P2\npromote\nscatter P1.1"),
    "unroll": (("ij,jlk,l->ik", A, dense(30, 3, 16), dense(3)), "unroll l"),
    "unroll_and_jam": (PRODUCT, "unroll_and_jam i 4"),
    "specialize": (PRODUCT, "reorder k i j\nsplit k 4\nvectorize k\nspecialize threads k0 8"),
    "parallelize": (PRODUCT, "parallelize i owned 100"),
    "parallelize-copies": (("ij,i->j", A, dense(40)), "widen\nparallelize i reduced 10"),
    "parallelize-binned": (("ij,i->j", A, dense(40)), "widen 64\nparallelize i binned 10"),
    "parallelize-reduced": (("ij,i,j->", A, dense(40), dense(30)), "promote\nparallelize i reduced 10"),
    "prefetch": (PRODUCT, "prefetch j 8"),
    "widen": (PRODUCT, "reorder j i k\nwiden"),
    "widen-blocks": (PRODUCT, "reorder j i k\nwiden 64"),
}


def problem_of(program):
    """The problem of an einsum, as its operands are stored."""
    text, *operands = program
    return planned(text, *operands, out_format="dense").given


@pytest.mark.parametrize("name", EXAMPLES)
def test_effect(name, request):
    program, text = EXAMPLES[name]
    problem, schedule = problem_of(program), Schedule.parse(text)
    before, after = apply_schedule(problem, Schedule()), apply_schedule(problem, schedule)
    assert Schedule.parse(str(schedule)) == schedule
    shown = f"{before}\n\n{schedule}\n\n{after}\n"
    compare(GOLDEN / f"{name}.txt", shown, request)
    assert str(before) != str(after)


def test_every_transformation_has_an_example():
    shown = {line.split()[0] for _, text in EXAMPLES.values() for line in text.splitlines()}
    assert shown == set(TRANSFORMATIONS) - {"workspace", "compute_at"}  # of assemblies and several statements, below
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(EXAMPLES)


def test_names_with_blanks_are_quoted():
    schedule = Schedule().reorder(("i", "B[K, z]")).split("B[K, z]", 4)
    assert Schedule.parse(str(schedule)) == schedule


def test_the_words_of_a_schedule_for_a_sparse_result():
    B = sparse(30, 20)
    plain = jsparse.explain("ij,jk->ik", A, B)
    assert str(plain.schedule).splitlines()[0] == "workspace k"
    want = np.asarray(A.todense()) @ np.asarray(B.todense())
    for schedule in (
        plain.schedule,
        Schedule().workspace("k").parallelize("i", grain=3),
        Schedule().prefetch("j", 4),
        Schedule().workspace("k").reorder("j k", term=0),
    ):
        got = jsparse.einsum("ij,jk->ik", A, B, schedule=schedule)
        np.testing.assert_array_equal(got.todense(), want)
        found = jsparse.explain("ij,jk->ik", A, B, schedule=schedule)
        again = jsparse.explain("ij,jk->ik", A, B, schedule=found.schedule)
        assert (again.schedule, str(again.loops)) == (found.schedule, str(found.loops))


@pytest.mark.parametrize(
    "text",
    [
        "reorder i k j\nsplit k 8\nvectorize k\nparallelize i",
        "vectorize k",
        "reorder k i j",
        "reorder i j k",
        "store A j i",
        "split j 8",
        "pos j\nsplit j 4",
        "split i 16\nparallelize i0",
        "unroll_and_jam i 3",
        "prefetch j 4",
    ],
)
def test_users_schedules_are_completed(text):
    schedule = Schedule.parse(text)
    found = jsparse.explain(*PRODUCT, schedule=schedule)
    given = [str(step) for step in schedule.steps if not str(step).startswith("parallelize")]
    assert set(given) <= set(map(str, found.schedule.steps))
    np.testing.assert_array_equal(jsparse.einsum(*PRODUCT, schedule=schedule), np.asarray(A.todense()) @ X)
    again = jsparse.explain(*PRODUCT, schedule=found.schedule)
    assert (again.schedule, again.kernel) == (found.schedule, found.kernel)


def test_a_schedule_is_for_one_kernel():
    chain = ("ij,jk,kl->il", A, X, dense(16, 4))
    assert len(jsparse.explain(*chain, schedule=Schedule().parallelize("i")).schedule.steps) > 1
    statement = "y[i] = A[i,j] * x[j] - B[i,j] * x[j]"
    tensors = {"A": A, "B": sparse(40, 30, seed=3), "x": dense(30)}
    want = (np.asarray(A.todense()) - np.asarray(tensors["B"].todense())) @ tensors["x"]
    got = jsparse.evaluate(statement, schedule=[Schedule().parallelize("i"), None], **tensors)
    np.testing.assert_array_equal(got, want)


def test_schedules_print_as_they_are_made():
    schedule = Schedule().store("A", "j i").reorder("i k j").split("k", 8).parallelize("i", grain=4)
    assert str(schedule) == "store A j i\nreorder i k j\nsplit k 8\nparallelize i owned 4"
    assert eval(repr(schedule)) == schedule
    assert len({schedule, Schedule.parse(str(schedule)), steps_of(schedule)}) == 2
