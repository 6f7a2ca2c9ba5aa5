"""Long sums of float32: in runs of 64 at every stage, in whatever way they are computed."""

import jax
import numpy as np
import pytest
from compiler.cases import planned, sparse
from interpreters import loops as interpret
from programs.amount import sample
from programs.host import HostRun
from programs.schedules import summary_of, without

import jsparse
from jsparse import SparseTensor
from jsparse.compiler.loops.blocked_sums import BLOCK
from jsparse.compiler.loops.domain import Runs
from jsparse.compiler.loops.nest import Assign, Forall, Sequence, Where
from jsparse.compiler.problem import Dense, Positions, TensorType, problem_of_product
from jsparse.compiler.schedule import Schedule, build_loops
from jsparse.compiler.schedule.layout import storage_type
from jsparse.formats.relayout import relayout_to
from jsparse.notation import Access, Assignment

UP, DOWN = 2**18 + 1, -(2**18)
"""64 times UP is exact in float32, 65 times it is not; a sum of as many UP as DOWN is their number."""


def matrix(rows, terms, format="csr", **options):
    """Rows of `terms` entries UP, then as many DOWN; a shorter one and an empty one among them."""
    lengths = [0 if i == 1 else 5 if i == 2 else terms for i in range(rows)]
    coords = np.concatenate([np.stack([np.full(2 * n, i), np.arange(2 * n)]) for i, n in enumerate(lengths)], axis=1)
    values = np.concatenate([np.repeat([UP, DOWN], n) for n in lengths]).astype(np.float32)
    return SparseTensor.from_coords(coords, values, (rows, 2 * terms + 30), format, **options)


def ones(*shape):
    return np.ones(shape, np.float32)


def full(*shape, size, format):
    """A tensor of ones whose first indices are all stored."""
    coords = np.indices(shape).reshape(len(shape), -1)
    return SparseTensor.from_coords(coords, ones(coords.shape[1]), size, format)


A = matrix(6, 100)
N = A.shape[1]
WIDE = matrix(4, 1024)  # rows of several runs in lanes of positions, whose folds are exact
M = WIDE.shape[1]
LONG = 4500  # more than 64 tiles of 64 lanes
T = full(3, 4, 90, size=(3, 4, 95), format="csf")
U = full(3, 40, 7, size=(3, 90, 95), format="csf")
BLOCKS = full(
    3, 20, 8, 8, size=(3, 20, 8, 8), format="(i, j, a, b) -> (i : dense, j : compressed, a : dense, b : dense)"
)
SITES = full(3, 8, 80, size=(3, 8, 80), format="(i, a, b) -> (i : compressed, a : dense, b : dense)")
CASES = {
    "rows": ("ij,j->i", WIDE, ones(M)),
    "rows in lanes": ("ij,jk->ik", A, ones(N, 16)),
    "rows in odd lanes": ("ij,jk->ik", A, ones(N, 75)),
    "all": ("ij->", WIDE),
    "all entries of a vector": ("i->", WIDE[0]),
    "rows of coo": ("ij,j->i", WIDE.asformat("coo"), ones(M)),
    "rows of coo in lanes": ("ij,jk->ik", A.asformat("coo"), ones(N, 8)),
    "rows of dcsr": ("ij->i", WIDE.asformat("dcsr")),
    "columns": ("ij,i->j", WIDE.T, ones(M)),
    "lanes summed over rows": ("ij,jk->k", A, ones(N, 8)),
    "folded lanes": ("ij,ik,jk->", A, ones(6, 16), ones(N, 16)),
    "one factor summed first": ("ij,ik->ik", WIDE, ones(4, 16)),
    "a tensor": ("ijk,k->i", T, ones(95)),
    "a tensor in lanes": ("ijk,jr,kr->ir", U, ones(90, 16), ones(95, 16)),
    "blocks": ("ijab,jb->ia", BLOCKS, ones(20, 8)),
    "a dense index": ("ik,jk->ij", ones(3, 300), ones(N, 300), A[:3]),
    "a dense index in many tiles": ("ik,jk->ij", ones(2, LONG + 7), ones(3, LONG + 7), A[:2, :3]),
    "rows that share what they read": ("iab,bk->iak", SITES, ones(80, 8)),
}


def run_of(text, *operands, long=True):
    """The plan of an einsum on host arrays; with `long`, as if nothing were known of the lengths of segments."""
    *operands, out = (*operands, None) if len(operands) == text.count(",") + 1 else operands
    plan = planned(text, *operands, out_format=out)
    schedule = without(plan.schedule, "specialize") if long else plan.schedule
    values = [np.asarray(x.values if isinstance(x, SparseTensor) else x) for x in operands]
    arrays = {
        t.name: _stored(v, t, plan, x) for t, v, x in zip(plan.problem.tensors[1:], values, operands, strict=True)
    }
    target, access = plan.problem.tensors[0], plan.problem.assignment.target
    shape = tuple(
        plan.patterns[axis.pattern].nse
        if hasattr(axis, "pattern")
        else plan.problem.size[str(access.indices[axis.dim])]
        for axis in target.axes
    )
    return HostRun(plan.problem, schedule, arrays, tuple(p.arrays for p in plan.patterns), shape)


def _stored(values, tensor, plan, operand):
    if isinstance(operand, SparseTensor):
        pattern = plan.patterns[tensor.positions.pattern]
        given = operand.pattern
        same = len(pattern.arrays) == len(given.arrays) and all(map(np.array_equal, pattern.arrays, given.arrays))
        moved = values if same or pattern.nse != given.nse else values[relayout_to(given, pattern.format).gather]
        return moved.reshape(pattern.nse, *(plan.problem.size[v] for v in _inner(tensor, plan)))
    return np.ascontiguousarray(values.transpose([axis.dim for axis in tensor.axes]))


def _inner(tensor, plan):
    (access,) = (f for f in plan.problem.assignment.factors if f.tensor == tensor.name)
    return [str(access.indices[axis.dim]) for axis in tensor.axes[1:]]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sample(list(CASES), 0, 2))
def test_every_stage_forms_the_same_sums(name):
    run = run_of(*CASES[name])
    want = run.meaning()
    for got in (run.by_loops(), run.by_kernel(False), run.by_kernel(True), run.by_code(1), run.by_code(3)):
        np.testing.assert_array_equal(got, want)


def runs_in(stmt):
    match stmt:
        case Forall(domain=domain, body=body):
            return ([domain] if isinstance(domain, Runs) else []) + runs_in(body)
        case Where(producer=producer, consumer=consumer):
            return runs_in(producer) + runs_in(consumer)
        case Sequence(stmts=stmts):
            return [found for inner in stmts for found in runs_in(inner)]
    return []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sample(list(CASES), 1, 2))
def test_no_sum_in_float32_has_more_terms(name, monkeypatch):
    """In the loop nest, by counting what is added to each element of each workspace."""
    run, counts, most = run_of(*CASES[name]), {}, [0]
    machine = interpret._Machine
    step, assign = machine.run, machine.assign

    def counting_run(self, stmt):
        if isinstance(stmt, Where):
            for key in [key for key in counts if key[0] == stmt.workspace.name]:
                del counts[key]
        adds = isinstance(stmt, Forall) and isinstance(stmt.body, Assign) and stmt.body.accumulate
        if adds and stmt.lanes:  # its accumulators are new, and are added to the scalar at the end
            name = stmt.body.target.tensor
            own = name, self.arrays[name].ctypes.data, ()
            for key in [key for key in counts if key[0] == name and key != own]:
                del counts[key]
            counts[own] = counts.get(own, 0) + (self.arrays[name].dtype == np.float32)
        step(self, stmt)

    def counting_assign(self, stmt):
        name = stmt.target.tensor
        if stmt.accumulate and self.arrays[name].dtype == np.float32:
            key = name, self.arrays[name].ctypes.data, self.address(stmt.target)
            counts[key] = counts.get(key, 0) + 1
            most[0] = max(most[0], counts[key])
        assign(self, stmt)

    monkeypatch.setattr(machine, "run", counting_run)
    monkeypatch.setattr(machine, "assign", counting_assign)
    np.testing.assert_array_equal(run.by_loops(), run.meaning())
    nest = summary_of(run.problem, run.schedule)
    folded = nest.vector is not None and nest.vector not in nest.free_vars  # then one term from each lane
    assert 0 < most[0] <= (max(BLOCK, LONG + 7) if folded else BLOCK)


def test_segments_known_to_be_short_need_no_runs():
    short = sparse(40, 3000, density=0.01)
    assert not runs_in(run_of("ij,j->i", short, ones(3000), long=False).loops.body)
    assert runs_in(run_of("ij,j->i", WIDE, ones(M), long=False).loops.body)
    assert runs_in(run_of("ij,j->i", short, ones(3000)).loops.body)


def test_each_lane_of_a_run_has_as_many_terms():
    (run,) = runs_in(run_of("ij,j->i", WIDE, ones(M)).loops.body)
    assert run.size == 8 * BLOCK


@pytest.mark.parametrize("block", [0, 64, 3])
@pytest.mark.parametrize("lanes", [0, 8])
def test_sums_in_memory_are_added_up_in_a_wider_copy(lanes, block):
    """Every row adds UP, then DOWN, to all columns."""
    matrix = np.repeat(np.array([[UP], [DOWN]], np.float32), 100, axis=0) * ones(1, 20)
    pattern = jsparse.asarray(matrix).pattern
    indices, dense = (("j", "k"), (Dense(0), Dense(1))) if lanes else (("j",), (Dense(0),))
    factors = (Access("A", ("i", "j")), *([Access("X", ("i", "k"))] if lanes else []))
    tensors = (TensorType("C", "float32", dense), TensorType("A", "float32", (Positions(0, (0, 1)),)))
    tensors += (TensorType("X", "float32", dense),) if lanes else ()
    sizes = (("i", 200), ("j", 20), *([("k", 8)] if lanes else []))
    problem = problem_of_product(Assignment(Access("C", indices), factors), tensors, (storage_type(pattern),), sizes)
    schedule = Schedule().split("k", lanes).vectorize("k").widen(block) if lanes else Schedule().widen(block)
    assert "in float32" in str(build_loops(problem, schedule)).splitlines()[-1]
    arrays = {"A": matrix.reshape(-1), "X": ones(200, 8)}
    run = HostRun(problem, schedule, arrays, (pattern.arrays,), (20, 8) if lanes else (20,))
    for got in (run.by_loops(), run.by_kernel(False), run.by_kernel(True), run.by_code(1), run.by_code(3)):
        np.testing.assert_array_equal(got, 100)


@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_other_dtypes_keep_their_nests(dtype):
    with jax.enable_x64(True):
        plan = planned("ij,j->i", A.astype(dtype), np.ones(N, dtype))
        assert not runs_in(build_loops(plan.problem, plan.schedule).body)


def test_other_semirings_keep_their_nests():
    text = str(jsparse.explain("ij,j->i", A, ones(N), semiring="min_plus"))
    assert "runs of" not in text
