"""Schedules, statements and recipes that are refused; `refusals.txt` has the messages of the rows."""

import json

import jax
import numpy as np
from compiler.cases import CASES, dense, planned, sparse
from refusals import test_refusals as test_refusals

import jsparse
from jsparse import JsparseError, Pattern, PatternError, Schedule, ScheduleError
from jsparse.compiler.kernel.algebra import const
from jsparse.compiler.kernel.lanes import in_lanes
from jsparse.compiler.kernel.nodes import Call, Cast, Var
from jsparse.compiler.lower.lower import lower
from jsparse.compiler.output_kind import read_output
from jsparse.compiler.problem import Dense, Positions, Problem, TensorType, problem_of_product
from jsparse.compiler.runtime import kernel_call
from jsparse.compiler.runtime.recipe import read_recipe, write_recipe
from jsparse.compiler.scalar import Apply, Let, Local
from jsparse.compiler.schedule import build_loops
from jsparse.compiler.schedule.layout import storage_type
from jsparse.compiler.schedule.schedule import apply_schedule
from jsparse.compiler.schedule.search.row_blocks import in_row_blocks
from jsparse.compiler.schedule.search.statements import plan_statements
from jsparse.compiler.statement import DerivedVar, Statement
from jsparse.notation import Access, Assignment, parse_einsum
from jsparse.planning.desugaring import relation

A, X, D = sparse(40, 30), dense(30, 16), sparse(40, 30).dynamic()
VECTOR, ENTRIES = (Dense(0),), (Positions(0, (0, 1)),)
CSR = Pattern.from_coordinates(np.array([[0, 0, 1, 3], [1, 2, 0, 3]]), (4, 5), "csr")[0]
ENTRY = ("i", "j")


def refused(program, *texts):
    """A row for each text of a schedule of an einsum."""
    subscripts, *operands = program
    problem = planned(subscripts, *operands, out_format="dense").given
    return ScheduleError, lambda text: apply_schedule(problem, Schedule.parse(text)), texts


def schedules_of_a_product():
    yield refused(
        ("ij,jk->ik", A, X),
        "reorder i j",
        "promote\nreorder i k j",
        "merge_by j P0\nreorder i k j",
        "parallelize i\nreorder k i j",
        "split k 8\nreorder i k k0 j",
        "split j 8\nreorder i j0 k j",
        "split j 8\nreorder j0 i k j",
        "pos j\nsplit j 8\nreorder j0 i j k",
        "reorder i in term 0",
        "split q 8",
        "split k 0",
        "split k 8\nsplit k 4",
        "unroll_and_jam k 2\nsplit k 8",
        "pos k",
        "pos i",
        "split j 4\npos j",
        "fuse i j",
        "vectorize k",
        "split j 8\nvectorize j",
        "split k 16\nvectorize k\nvectorize k",
        "split k 20\nvectorize k",
        "promote\nvectorize k 8",
        "promote\nsplit k 8",
    )


def more_schedules_of_a_product():
    yield refused(
        ("ij,jk->ik", A, X),
        "precompute j",
        "promote\npromote",
        "cache_read B i",
        "split j 8\ncache_read B j0",
        "workspace k",
        "merge_by j P3",
        "scatter P0.1",
        "scatter P0.7",
        "split i 8\nunroll_and_jam i 2",
        "unroll j",
        "unroll_and_jam i 1",
        "specialize pattern P7",
        "specialize segments P0.4",
        "split k 4\nvectorize k\nspecialize threads k0 8",
        "reorder k i j\nsplit k 4\nvectorize k\nsplit j 16384\nreorder k0 j0 i j\ncache_read B j0\n"
        "specialize threads k0 8",
        "parallelize j owned",
        "reorder j i k\nparallelize j owned",
        "reorder k j i\nsplit k 4\nvectorize k\nparallelize j reduced",
        "parallelize i split",
        "parallelize i\nparallelize i",
        "prefetch k 4",
        "prefetch j 0",
        "reorder i k j\npromote\nwiden",
        "reorder j i k\nwiden 65",
    )


def schedules_of_other_einsums():
    rows, triangles = dense(30), ("ij,ik,jk->", *(sparse(30, 30, seed=n) for n in (1, 2, 3)))
    layer, wide = ("ij,jc,cf->if", A, dense(30, 5), dense(5, 16)), ("ij,jk->ik", A, dense(30, 4000))
    dcsr = sparse(40, 30, seed=2, format="dcsr")
    yield refused(("ij,ij->i", A, dcsr), "split i 8")
    yield refused(("ij,ij->", A, dcsr), "merge_by i P0")
    yield refused(("ij,ij->i", A, sparse(40, 30, seed=2)), "pos j")
    yield refused(("ij,j->i", sparse(40, 30, format="coo"), rows), "split j 4")
    yield refused(("ij,kj->ik", A, sparse(16, 30, seed=2)), "fuse i k")
    yield refused(("ij,jkl,kl->i", A, dense(30, 3, 4), dense(3, 4)), "fuse k l")
    yield refused(("ij,j->i", D, rows), "vectorize j", "specialize pattern P0")
    coords = np.stack([np.arange(40), np.arange(40) % 30])
    alone = jsparse.SparseTensor.from_coords(coords, dense(40), (40, 30), "(i, j) -> (i : compressed, j : singleton)")
    yield refused(("ij,j->", alone, sparse(30, format="coo")), "promote\nvectorize i 8")
    promoted = ["promote\nvectorize j 3", "promote\nvectorize i 8", "promote\nvectorize j 8\nprefetch j 4"]
    yield refused(("ij,j->i", A, rows), "vectorize j 8", *promoted)
    yield refused(("ij,ik->ik", A, dense(40, 16)), "precompute k", "precompute i")
    yield refused(layer, "reorder i f j c\nprecompute j c", "reorder i f c j\nprecompute c")
    yield refused(("ij,jc,cf->if", A, dense(30, 0), dense(0, 16)), "precompute c")
    yield refused(("ij,jk->ik", A, dense(30, 300)), "unroll k")
    yield refused(wide, "reorder j i k\nparallelize j reduced")
    scattered = ["scatter P2.1", "merge_by k P1", "promote", "unroll_and_jam i 2", "reorder i j k"]
    yield refused(triangles, *(f"scatter P2.1\n{text}" for text in scattered))
    yield refused(triangles, "scatter P1.0", "unroll_and_jam i 2\nscatter P1.1")
    lines = ["tile k 8", "split k", "split k x", "merge_by j A", "parallelize i somehow", "specialize luck P0"]
    yield ScheduleError, lambda text: Schedule.parse(text), [*lines, "reorder 'i"]
    none = [Schedule().scatter("k"), Schedule().scatter("P0"), Schedule().merge_by("k", "A")]
    none.append(Schedule().specialize("segments", "A"))
    yield ScheduleError, lambda schedule: jsparse.einsum(*triangles, schedule=schedule), none


def schedules_of_calls():
    sums = "y[i] = A[i,j] * x[j] - B[i,j] * x[j]"
    tensors = {"A": A, "B": sparse(40, 30, seed=3), "x": dense(30)}
    yield ScheduleError, lambda: jsparse.evaluate(sums, schedule=Schedule(), **tensors)
    parallel = Schedule().parallelize("i")
    yield ScheduleError, lambda: jsparse.einsum("ij,jk->ik", dense(3, 4), dense(4, 5), schedule=parallel)
    yield ScheduleError, lambda: jsparse.einsum("ij,jk->ik", A, X, schedule="vectorize k")
    yield ScheduleError, lambda: jsparse.einsum("ij,jk->ik", A, X, schedule=Schedule().store("A", "j k"))
    yield ScheduleError, lambda: jsparse.einsum("ij,j->i", D, dense(30), schedule=Schedule().reorder("j i"))
    yield ScheduleError, lambda: jsparse.einsum("ij,j->i", D, dense(30), schedule=Schedule().store("Q", "j i"))
    for schedule in (Schedule().split("i", 4), Schedule().workspace("i"), Schedule().parallelize("k")):
        yield ScheduleError, lambda s: jsparse.einsum("ij,jk->ik", A, sparse(30, 20), schedule=s), [schedule]
    pattern = Pattern.from_coordinates([[0, 1, 1, 1], [5, 2, 7, 9]], (2, 90), "csr")[0].extended([11])
    x, y, heads = np.ones((2, 11, 24), np.float32), np.ones((90, 11, 24), np.float32), "ihl,jhl->ijh"
    for steps in ("vectorize h 16", "vectorize h 3", "unroll_and_jam h 2\nvectorize h 4"):
        schedule = Schedule.parse(f"reorder i j h l\nsplit l 24\nvectorize l\npromote\n{steps}")
        yield ScheduleError, lambda s: jsparse.einsum(heads, x, y, out_format=pattern, schedule=s), [schedule]


def patterns_that_are_written_out():
    def written_out(*loops):
        steps = "\n".join(f"unroll {loop}" for loop in loops)
        order = " ".join(("b", *loops))
        return Schedule.parse(f"reorder {order}\nsplit b 16\nvectorize b\nspecialize pattern P0\n{steps}")

    wide, both = 1100, written_out("i", "j")
    many = jsparse.asarray(np.ones((20, 20), np.float32))
    tall = jsparse.SparseTensor.from_coords([[7, 900], [0, 1]], np.ones(2, np.float32), (1000, 2), "csr")
    for T in (many, tall, jsparse.eye(3, dtype="float32").dynamic(3)):
        yield ScheduleError, lambda T: jsparse.einsum("ij,jb->ib", T, np.ones((T.shape[1], wide)), schedule=both), [T]
    eye, cube = jsparse.eye(20, dtype="float32"), np.ones((20, 20, wide))
    yield ScheduleError, lambda: jsparse.einsum("ij,ajb->aib", eye, cube, schedule=written_out("a", "i", "j"))


def blocks_of_rows():
    rng = np.random.default_rng(0)
    to, of, kind = (rng.integers(0, size, 90) for size in (13, 11, 4))
    x, w = np.ones((11, 3), np.float32), np.ones((4, 3, 20), np.float32)

    def convolved(schedule, o=to):
        text = "out[o[p],m] += x[i[p],c] * w[k[p],c,m]"
        return jsparse.evaluate(text, shape=(13, 20), o=o, i=of, k=kind, x=x, w=w, schedule=schedule)

    orders = [("P2", "q/4 k[p] p"), ("P2", "o[p]/4 i[p]/4 k[p] p"), ("P0", "o[p]/2 o[p] p")]
    yield ScheduleError, lambda operand, order: convolved(Schedule().store(operand, order)), orders
    steps = Schedule().store("P2", "o[p]/4 k[p] p").reorder("m o[p]0 k[p] p o[p] i[p] c")
    steps = steps.split("m", 16).vectorize("m").unroll_and_jam("p", 8)
    yield ScheduleError, lambda: jax.jit(lambda o: convolved(steps, o=o))(to)
    table = relation(kind, 4)
    yield PatternError, lambda: in_row_blocks(table, relation(to[:5], 13), 4)
    yield PatternError, lambda: in_row_blocks(table, relation(np.where(to == 3, -1, to), 13), 4)


def fused_statements():
    E, S, W, matrix = Access("E", ENTRY), Access("S", ("i",)), Access("W", ENTRY), Access("A", ENTRY)
    axes = {"E": ENTRIES, "S": VECTOR, "W": ENTRIES, "A": ENTRIES, "D": (Dense(0), Dense(1)), "X": (Dense(0), Dense(1))}

    def problem(*statements, **options):
        names = [*(s.target.tensor for s in statements), "A", *(["X"] if "X" in str(statements) else [])]
        tensors = tuple(TensorType(name, "float32", axes[name]) for name in names)
        return Problem(statements, tensors, (storage_type(CSR),), (("i", 4), ("j", 5)), **options)

    def nest(problem, *schedules):
        return build_loops(problem, *map(Schedule.parse, schedules))

    squared = Statement(E, Apply("*", (matrix, matrix)), "+", (0,))
    sums, quotients = Statement(S, E, "+", (0,)), Statement(W, Apply("/", (E, S)), "+", (0,))
    normalised = problem(squared, sums, quotients, temporaries=("E", "S"))
    wrong = [
        ("compute_at q", "", ""),
        ("", "", "compute_at i"),
        ("parallelize i\ncompute_at i", "", ""),
        ("split i 2\nreorder i0 i j\ncompute_at i", "", ""),
        ("split i 2\ncompute_at i0", "split i 3\ncompute_at i0", "split i 2"),
        ("split i 2\ncompute_at i", "reorder i j\ncompute_at i", ""),
        ("pos j\nsplit j 2\ncompute_at j0", "", ""),
        ("compute_at i", "reorder j i", ""),
        ("compute_at i", "unroll_and_jam i 2", ""),
        ("", "compute_at j", ""),
        ("reorder j i\ncompute_at j", "reorder j i\ncompute_at j", "reorder j i"),
    ]
    yield ScheduleError, lambda first, second, last: nest(normalised, first, second, last), wrong
    copied = Statement(W, matrix, "+", (0,))
    columns = problem(Statement(Access("S", ("j",)), matrix, "+", (0,)), copied)
    yield ScheduleError, lambda: nest(columns, "compute_at i", "parallelize i")
    scaled = Statement(Access("D", ENTRY), Apply("*", (Access("X", ENTRY), Access("X", ENTRY))), "+")
    squares = Statement(W, Apply("*", (matrix, matrix)), "+", (0,))
    for statements in ((scaled, squares), (squares, scaled)):
        yield ScheduleError, lambda p: nest(p, "compute_at j", ""), [problem(*statements)]
    one = TensorType("B", "float32", ()), TensorType("A", "float32", ENTRIES)
    total = Assignment(Access("B", ()), (matrix,))
    product = problem_of_product(total, one, (storage_type(CSR),), (("i", 4), ("j", 5)))
    yield ScheduleError, lambda: build_loops(product, Schedule().reorder("i"))


def statements():
    ROW, entry = ("i",), Access("A", ENTRY)
    R, S, x = (Access(name, ROW) for name in ("R", "S", "x"))

    def split(strides, sizes):
        types = tuple(TensorType(name, "float64", VECTOR) for name in ("R", "x"))
        statement = Statement(Access("R", ("k",)), Access("x", ("k",)))
        return Problem((statement,), types, (), tuple(sizes.items()), derived=(DerivedVar("k", strides),))

    strides = [
        (((2, "k0"), (1, "k1")), {"k": 10, "k0": 3, "k1": 4}),
        (((4, "k0"), (1, "m")), {"k": 10, "k0": 3}),
        (((0, "k0"), (1, "k1")), {"k": 10, "k0": 3, "k1": 4}),
    ]
    yield ValueError, lambda strides, sizes: split(strides, sizes), strides
    yield ValueError, lambda: Apply("**", (entry, entry))
    yield ValueError, lambda: Apply("select", (entry, entry))
    yield ValueError, lambda: Apply("-", (entry, entry, entry))
    yield ValueError, lambda: Apply("exp", (entry, entry))
    yield ValueError, lambda: Statement(entry, Let("t", Local("t"), entry))
    yield ValueError, lambda: Statement(entry, entry, condition=Apply("<", (Local("u"), entry)))
    integers = tuple(TensorType(name, "int32", VECTOR) for name in ("R", "x"))
    floats_only = Problem((Statement(R, Apply("exp", (x,))),), integers, (), (("i", 3),))
    yield ValueError, lambda: lower(build_loops(floats_only, *plan_statements(floats_only, [])))

    def two(first, second, temporaries=()):
        types = tuple(TensorType(name, "float32", VECTOR) for name in ("R", "S", "x"))
        return Problem((first, second), types, (), (("i", 3),), temporaries=temporaries)

    yield ValueError, lambda: two(Statement(R, x), Statement(R, x))
    yield ValueError, lambda: two(Statement(R, S), Statement(S, x))
    yield ValueError, lambda: two(Statement(R, x), Statement(S, S))
    yield ValueError, lambda: two(Statement(S, x), Statement(R, x))
    yield ValueError, lambda: two(Statement(R, x), Statement(S, x), ("x",))
    on = tuple(TensorType(name, "float32", ENTRIES) for name in "AB")
    types, sizes = (TensorType("C", "float32", ()), *on), (("i", 3), ("j", 3))
    transposed = parse_einsum("ij,ji->", ((3, 3), (3, 3)))
    yield ValueError, lambda: problem_of_product(transposed, types, (storage_type(CSR),), sizes)
    yield TypeError, lambda: in_lanes(Call("exp", (Cast(Var("p"), "float32"),)), Var("p"), const(0), 16)


def recipes():
    case = CASES[5].plan
    recipe = json.loads(write_recipe(case.problem, (case.schedule,)))
    texts = ["", "{", "[]", "{}", "null", "3", '"x"', '{"version": 1}', '{"version": 99}']
    yield JsparseError, lambda text: read_recipe(text), texts
    for name in sorted(recipe):
        text = json.dumps({key: value for key, value in recipe.items() if key != name})
        yield JsparseError, lambda name, text: read_recipe(text), [(name, text)]
    levels = [[["hashed", True]], "int32", False, 0]
    yield JsparseError, lambda: read_recipe(json.dumps({**recipe, "patterns": [levels]}))
    outputs = [None, [], ["compute", 1], ["count"], ["write", "rows", True], ["write", "levels", 1]]
    yield ValueError, lambda value: read_output(value), outputs
    yield (
        JsparseError,
        lambda name: kernel_call.kernel_of(json.dumps({**recipe, "backend": name})),
        ["gcc", 3, None, []],
    )
    yield JsparseError, lambda text: kernel_call.kernel_of(text), ["", "[]", "3"]


def edited_recipes():
    """A kernel trusts its recipe when it computes addresses. So parts of it that contradict each other are refused."""
    case = CASES[5].plan
    recipe = json.loads(write_recipe(case.problem, (case.schedule,)))
    levels, (C, A, B), (product,) = [["dense", True], ["compressed", True]], recipe["tensors"], recipe["statements"]

    def read(**edits):
        return read_recipe(json.dumps({**recipe, **edits}))

    i, j, k, q = ["i", 40], ["j", 30], ["k", 16], ["q", 10]
    wrong = [[i, k, j, j], [i, k], [["i", -1], k, j], [["i", 2**62 + 1], k, j]]
    yield JsparseError, lambda sizes: read(sizes=sizes), wrong
    huge, twice = [["q", [[2**60, "i"], [1, "j"]]]], [["q", [[1, "i"]]], ["q", [[1, "j"]]]]
    yield JsparseError, lambda derived: read(derived=derived, sizes=[i, k, j, q]), [huge, twice]
    fields = [
        ("int8", False, 0, [], []),
        ("int32", False, 0, [], [40]),
        ("int32", False, 0, [], [40, -1]),
        ("int32", True, 0, [[0], [0]], []),
        ("int32", False, 0, [[0]], []),
    ]
    yield JsparseError, lambda pattern: read(patterns=[[levels, *pattern]]), fields
    wrong = [["A", "complex64", [[0, 0, 1]]], ["A", "float80", [[0, 0, 1]]], ["A", "float32", [[0, 0, 1]] * 2]]
    yield JsparseError, lambda tensor: read(tensors=[C, tensor, B]), [*wrong, ["A", "float32", [[0, 0]]]]
    wrong = [["B", "float32", axes] for axes in ([0], [0, 0], [0, 1, 2])]
    yield JsparseError, lambda tensor: read(tensors=[C, A, tensor]), wrong
    more = [["D", "float32", []], ["P0_1_pointers", "float32", []]]
    yield JsparseError, lambda tensor: read(tensors=[C, A, B, tensor]), more
    yield JsparseError, lambda patterns: read(statements=[[*product[:3], patterns, None]]), [[0, 0], []]
    yield JsparseError, lambda: read(statements=[])
    yield JsparseError, lambda: read(ordered=True)
    yield JsparseError, lambda: read(output=["count", True])
    outputs = [
        (["count", True], "int32"),
        (["write", "columns", False], "float32"),
        (["write", "columns", True], "float32"),
        (["write", "levels", False], "int32"),
    ]
    yield JsparseError, lambda output, dtype: read(output=output, tensors=[["C", dtype, []], A, B]), outputs
    columns = {"output": ["write", "columns", False], "tensors": [["C", "int32", []], A, B]}
    yield JsparseError, lambda: read(**columns, columns="int8")
    yield JsparseError, lambda: read(**columns, statements=[product, product])


def edited_recipes_of_vectors():
    n, recipe = ["n"], json.loads(write_recipe(CASES[5].plan.problem, ()))
    filled, gathered, copied = ("G", ["H", n]), ("C", ["V", [["G", n]]]), ("C", ["H", n])

    def read(statements, tensors, size=9, **edits):
        stated = [[[target, n], ["access", *value], "+", [], None] for target, value in statements]
        typed = [[name, dtype, [0]] for name, dtype in tensors.items()]
        own = {"statements": stated, "tensors": typed, "patterns": [], "walks": [], "sizes": [["n", size]]}
        return read_recipe(json.dumps({**recipe, **own, "schedules": [[]] * len(stated), **edits}))

    integers = dict.fromkeys("GCVH", "int32")
    yield JsparseError, lambda: read([gathered], {"C": "int32", "V": "int32", "G": "float32"})
    yield JsparseError, lambda: read([filled, gathered], integers)
    both, names = [filled, copied], dict.fromkeys("GCH", "int32")
    yield JsparseError, lambda: read(both, names, size=None, temporaries=["G"])
    yield JsparseError, lambda: read(both, names, size=None, views={"C": "G"})
