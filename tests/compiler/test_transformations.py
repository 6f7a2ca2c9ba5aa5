"""Each transformation: its effect on a nest, compared with golden files, and the reason for which it is refused."""

from pathlib import Path

import numpy as np
import pytest
from compiler.cases import dense, planned, sparse
from programs.schedules import steps_of

import jsparse
from jsparse.compiler.schedule import Schedule
from jsparse.compiler.schedule.schedule import apply_schedule
from jsparse.compiler.schedule.transformations import TRANSFORMATIONS
from jsparse.errors import ScheduleError

GOLDEN = Path(__file__).parent / "golden_transformations"
A, X = sparse(40, 30), dense(30, 16)
T = sparse(12, 10, 8, format="csf")
BLOCKED = "(i, j, k) -> (i : dense, j : compressed, k : dense)"

FULL = "(i, j) -> (i : dense, j : dense)"
PRODUCT = ("ij,jk->ik", A, X)
LAYER = ("ij,jc,cf->if", A, dense(30, 5), dense(5, 16))
TRIANGLES = ("ij,ik,jk->", *(sparse(30, 30, seed=n) for n in (1, 2, 3)))
WIDE_PRODUCT = ("ij,jk->ik", A, dense(30, 4000))
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
    path = GOLDEN / f"{name}.txt"
    if request.config.getoption("update_golden"):
        path.write_text(shown, encoding="utf-8")
    assert shown == path.read_text(encoding="utf-8")
    assert str(before) != str(after)


def test_every_transformation_has_an_example():
    shown = {line.split()[0] for _, text in EXAMPLES.values() for line in text.splitlines()}
    assert shown == set(TRANSFORMATIONS) - {"workspace", "compute_at"}  # of assemblies and several statements, below
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(EXAMPLES)


D = sparse(40, 30).dynamic()
REFUSED = {
    "reorder i j": (PRODUCT, "name each of them once"),
    "promote\nreorder i k j": (PRODUCT, "has made a workspace.*reorder before"),
    "merge_by j P0\nreorder i k j": (PRODUCT, "needs the loops in their order"),
    "parallelize i\nreorder k i j": (PRODUCT, "divides the outermost loop, which would be k"),
    "split k 8\nreorder i k k0 j": (PRODUCT, "k0 is the outer loop of k"),
    "split j 8\nreorder i j0 k j": (PRODUCT, "continue the segments below i"),
    "split j 8\nreorder j0 i k j": (PRODUCT, "the loop k between j0 and j would walk each segment several times"),
    "pos j\nsplit j 8\nreorder j0 i j k": (PRODUCT, "j0 divides segments below i"),
    "reorder i in term 0": (PRODUCT, "there is no term 0"),
    "split q 8": (PRODUCT, "there is no loop q; the loops are i, j, k"),
    "split k 0": (PRODUCT, "at least one coordinate"),
    "split k 8\nsplit k 4": (PRODUCT, "split already"),
    "unroll_and_jam k 2\nsplit k 8": (PRODUCT, "is for the loop as it is: split before"),
    "split i 8": (("ij,ij->i", A, sparse(40, 30, seed=2, format="dcsr")), "several patterns meet at i"),
    "split j 4": (("ij,j->i", sparse(40, 30, format="coo"), dense(30)), "single coordinates"),
    "pos k": (PRODUCT, "no pattern is walked at k"),
    "pos i": (PRODUCT, "the level of i has no segments"),
    "pos j": (("ij,ij->i", A, sparse(40, 30, seed=2)), "several patterns meet at j"),
    "split j 4\npos j": (PRODUCT, "split by coordinates already"),
    "fuse i j": (PRODUCT, "index of a sparse pattern"),
    "fuse i k": (("ij,kj->ik", A, sparse(16, 30, seed=2)), "i is an index of a sparse pattern"),
    "fuse k l": (("ij,jkl,kl->i", A, dense(30, 3, 4), dense(3, 4)), "k is summed"),
    "vectorize k": (PRODUCT, "split k before"),
    "vectorize j": (("ij,j->i", D, dense(30)), "split j before"),
    "split j 8\nvectorize j": (PRODUCT, "index of a sparse pattern"),
    "split k 16\nvectorize k\nvectorize k": (PRODUCT, "k runs in lanes already"),
    "split k 20\nvectorize k": (PRODUCT, "larger than k, of size 16"),
    "vectorize j 8": (("ij,j->i", A, dense(30)), "what j adds to is no scalar in registers"),
    "promote\nvectorize j 3": (("ij,j->i", A, dense(30)), "a power of two of positions"),
    "promote\nvectorize i 8": (("ij,j->i", A, dense(30)), "i is no innermost loop"),
    "promote\nvectorize k 8": (PRODUCT, "k is no innermost loop over stored entries"),
    "promote\nvectorize j 8\nprefetch j 4": (("ij,j->i", A, dense(30)), "works on several positions of j"),
    "promote\nsplit k 8": (PRODUCT, "has made a workspace"),
    "precompute j": (PRODUCT, "every factor depends on j"),
    "precompute k": (("ij,ik->ik", A, dense(40, 16)), "k is no index that is summed in one loop"),
    "precompute i": (("ij,ik->ik", A, dense(40, 16)), "i is no index that is summed in one loop"),
    "reorder i f j c\nprecompute j c": (LAYER, "one is an index of a sparse pattern, and the other is dense"),
    "reorder i f c j\nprecompute c": (LAYER, "B.j, c. depends on j, whose loop stands inside of c"),
    "precompute c": (("ij,jc,cf->if", A, dense(30, 0), dense(0, 16)), "c has no coordinates"),
    "promote\npromote": (PRODUCT, "in registers already"),
    "cache_read B i": (PRODUCT, "no loop over panels"),
    "split j 8\ncache_read B j0": (PRODUCT, "nothing runs in lanes"),
    "workspace k": (PRODUCT, "only the assembly of a sparse result has a row"),
    "merge_by j P3": (PRODUCT, "P3 has no level of j"),
    "merge_by i P0": (
        ("ij,ij->", A, sparse(40, 30, seed=2, format="dcsr")),
        "P0 locates a coordinate of i by arithmetic",
    ),
    "scatter P0.1": (PRODUCT, "P0.1 is not looked up"),
    "scatter P0.7": (PRODUCT, "there is no level P0.7"),
    "scatter P2.1\nscatter P2.1": (TRIANGLES, "P2.1 is scattered already"),
    "scatter P1.0": (TRIANGLES, "P1.0 has no segments of distinct coordinates"),
    "scatter P2.1\nmerge_by k P1": (TRIANGLES, "is for the lookups as they are"),
    "scatter P2.1\npromote": (TRIANGLES, "has made a map already"),
    "scatter P2.1\nunroll_and_jam i 2": (TRIANGLES, "has made a map for one iteration at a time"),
    "unroll_and_jam i 2\nscatter P1.1": (TRIANGLES, "runs several iterations at a time"),
    "scatter P2.1\nreorder i j k": (TRIANGLES, "has made a workspace"),
    "split i 8\nunroll_and_jam i 2": (PRODUCT, "a panel of i has stored entries"),
    "unroll j": (PRODUCT, "the entries of P0 are not constants"),
    "unroll k": (("ij,jk->ik", A, dense(30, 300)), "at most 256 iterations"),
    "unroll_and_jam i 1": (PRODUCT, "2 to 16 iterations"),
    "specialize pattern P0": (("ij,j->i", D, dense(30)), "known at run time only"),
    "specialize pattern P7": (PRODUCT, "there is no pattern P7"),
    "specialize segments P0.4": (PRODUCT, "there is no level P0.4"),
    "split k 4\nvectorize k\nspecialize threads k0 8": (PRODUCT, "which is not the outermost loop"),
    "reorder k i j\nsplit k 4\nvectorize k\nsplit j 16384\nreorder k0 j0 i j\ncache_read B j0\n"
    "specialize threads k0 8": (
        PRODUCT,
        "a copy has at most 262,144 bytes, not 524,288",
    ),
    "parallelize j owned": (PRODUCT, "only the outermost loop is divided"),
    "reorder j i k\nparallelize j owned": (PRODUCT, "do not own parts of C"),
    "reorder j i k\nparallelize j reduced": (WIDE_PRODUCT, "has at most 1,048,576 bytes"),
    "reorder k j i\nsplit k 4\nvectorize k\nparallelize j reduced": (PRODUCT, "reorder j out of k0"),
    "parallelize i split": (PRODUCT, "the sums below a segment's loop are not in registers"),
    "parallelize i\nparallelize i": (PRODUCT, "divides the work already"),
    "prefetch k 4": (PRODUCT, "k is no index of a sparse pattern"),
    "prefetch j 0": (PRODUCT, "entries are requested 1 to"),
    "reorder i k j\npromote\nwiden": (PRODUCT, "no sum is added up in memory"),
    "reorder j i k\nwiden 65": (PRODUCT, "blocks have 1 to 64 terms, not 65"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals(text):
    program, reason = REFUSED[text]
    with pytest.raises(ScheduleError, match=reason):
        apply_schedule(problem_of(program), Schedule.parse(text))


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        (Schedule().scatter("k"), "there is no level k"),
        (Schedule().scatter("P0"), "there is no level P0"),
        (Schedule().merge_by("k", "A"), "A has no level of k"),
        (Schedule().specialize("segments", "A"), "there is no pattern A"),
    ],
)
def test_names_of_no_pattern(schedule, reason):
    with pytest.raises(ScheduleError, match=reason):
        jsparse.einsum(*TRIANGLES, schedule=schedule)


@pytest.mark.parametrize(
    "text",
    ["tile k 8", "split k", "split k x", "merge_by j A", "parallelize i somehow", "specialize luck P0", "reorder 'i"],
)
def test_lines_that_are_no_steps(text):
    with pytest.raises(ScheduleError, match="Expected"):
        Schedule.parse(text)


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
    for schedule in (Schedule().split("i", 4), Schedule().workspace("i"), Schedule().parallelize("k")):
        with pytest.raises(ScheduleError):
            jsparse.einsum("ij,jk->ik", A, B, schedule=schedule)


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
    with pytest.raises(ScheduleError, match="Expected 2 schedules"):
        jsparse.evaluate(statement, schedule=Schedule(), **tensors)
    with pytest.raises(ScheduleError, match="XLA"):
        jsparse.einsum("ij,jk->ik", dense(3, 4), dense(4, 5), schedule=Schedule().parallelize("i"))
    with pytest.raises(ScheduleError, match=r"Schedule\.parse"):
        jsparse.einsum(*PRODUCT, schedule="vectorize k")


def test_a_dynamic_pattern_is_walked_as_it_is_stored():
    with pytest.raises(ScheduleError, match="walked in the orders in which it is stored"):
        jsparse.einsum("ij,j->i", D, dense(30), schedule=Schedule().reorder("j i"))
    with pytest.raises(ScheduleError, match="Expected the name of a sparse operand"):
        jsparse.einsum("ij,j->i", D, dense(30), schedule=Schedule().store("Q", "j i"))
    with pytest.raises(ScheduleError, match="Expected an order of the indices"):
        jsparse.einsum(*PRODUCT, schedule=Schedule().store("A", "j k"))


def test_schedules_print_as_they_are_made():
    schedule = Schedule().store("A", "j i").reorder("i k j").split("k", 8).parallelize("i", grain=4)
    assert str(schedule) == "store A j i\nreorder i k j\nsplit k 8\nparallelize i owned 4"
    assert eval(repr(schedule)) == schedule
    assert len({schedule, Schedule.parse(str(schedule)), steps_of(schedule)}) == 2
