"""Runs programs with dynamic operands and traced tables: each is compiled once, perhaps for a batch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import jax
import numpy as np
from programs.composed import ComposedOperand
from programs.compositions import has_composed
from programs.evaluation import Evaluation
from programs.indirection import Indirect
from programs.program import DenseOperand, Program, SparseOperand
from programs.results import check_assembled, check_padding, check_result, check_structure, empty_of
from stored import closure

import jsparse
from jsparse import Format, NotYetSupportedError, PatternError, SparseTensor
from jsparse.formats.composed import is_composed
from jsparse.formats.format import default_format
from jsparse.notation import parse_statement
from jsparse.tensor.composed import ComposedTensor

__all__ = [
    "Dynamic",
    "drawn",
    "function_of",
    "is_linear_in",
    "needs_static",
    "operands_of",
    "run_dynamic",
    "stacked_of",
    "tables_of",
    "thinned",
    "without_composed_result",
]


OWN = -1  # the capacity of an operand that is made dynamic without one: the number of its values
MOST_BLOCK = 4  # the size of the largest blocks of a result


@dataclass(frozen=True)
class Dynamic:
    """Which operands of a program are dynamic or traced, and whether `nse=` is given.

    Attributes:
        capacities: the capacity of each dynamic operand; None for static and dense ones, OWN if none is given.
        transposed: whether each operand has a transposed index.
        known: whether each operand is a static table.
        other: whether each operand differs between the programs of a batch. Dynamic operands and traced tables may.
        spare: by how much the result's capacity exceeds its entries, where `nse=` is given.
        gives_nse: whether `nse=` is given even where operands bound the number of entries.
    """

    capacities: tuple[int | None, ...]
    transposed: tuple[bool, ...]
    known: tuple[bool, ...]
    other: tuple[bool, ...]
    spare: int
    gives_nse: bool

    @property
    def axes(self) -> tuple[int | None, ...]:
        """`in_axes` of `jax.vmap` for the operands that are no static tables."""
        named = zip(self.other, self.known, strict=True)
        return tuple(0 if other else None for other, known in named if not known)


def run_dynamic(program: Program | Evaluation, batched: bool) -> bool:
    """Check the jitted program, or a batch of it, with some operands dynamic. False if no operand can be dynamic."""
    rng = np.random.default_rng((*program.seed, 3))
    program = without_composed_result(program)
    how = drawn(program, rng)
    if how is None:
        return False
    programs = [program, thinned(program, how, rng)] if batched else [program]
    with jax.enable_x64(program.needs_x64):
        try:
            results = _results(programs, how)
        except NotYetSupportedError as error:
            if needs_static(error):
                return False
            raise
        for one, got in zip(programs, results, strict=True):
            _check(one, got)
    return True


def needs_static(error: NotYetSupportedError) -> bool:
    """Whether a dynamic composed operand has to be converted first, which needs a static pattern."""
    return "Expected a static pattern, to convert it to a plain format" in str(error)


def _check(program: Program | Evaluation, got: object) -> None:
    if not isinstance(got, SparseTensor) or not (got.is_dynamic or _is_empty_product(program, got)):
        check_result(program, got)
        return
    assert not bool(got.overflowed)
    got.validate()
    values, used = np.asarray(got.values), got.static()
    if not isinstance(got, ComposedTensor) or len(got.parts) == 1:
        assert not values[used.nse :].any(), "unused slots are not zero"
    if isinstance(program.out_format, SparseOperand):
        check_result(program, used)
        return
    check_assembled(
        used, program.expected, program.out_format, empty_of(program)
    )  # even if two patterns are equal, the result has a new one
    check_padding(program, used)
    check_structure(program, used)


def _is_empty_product(program: Program | Evaluation, got: SparseTensor) -> bool:
    """Whether a static result has a new pattern: it has no room for an entry, so index arrays do not depend on data.

    Even if the patterns of the operands are equal, a dynamic one of them is another pattern.
    """
    return got.nse == 0 and sum(isinstance(x, SparseOperand) for x in operands_of(program)) > 1


def drawn(program: Program | Evaluation, rng: np.random.Generator) -> Dynamic | None:
    """A random choice of dynamic operands; None if no operand can be dynamic."""
    operands = operands_of(program)
    able = [_can_be_dynamic(x) for x in operands]
    tables = tables_of(program)
    if not any(able) and not tables:
        return None
    chosen = [bool(a) and rng.random() < 0.65 for a in able]
    if True in able and not tables:
        chosen[able.index(True)] |= not any(chosen)
    capacities = tuple(_capacity(x, rng) if c else None for x, c in zip(operands, chosen, strict=True))
    composed = [isinstance(x, ComposedOperand) for x in operands]
    transposed = tuple(c and rng.random() < 0.5 and not own for c, own in zip(chosen, composed, strict=True))
    spare, gives_nse = int(rng.choice([0, 1, 7])), bool(rng.random() < 0.4)
    known = [n in tables and rng.random() < 0.25 for n in range(len(operands))]
    own = [c and capacity != OWN for c, capacity in zip(chosen, capacities, strict=True)]
    other = tuple(c or (n in tables and not known[n] and rng.random() < 0.7) for n, c in enumerate(own))
    return Dynamic(capacities, transposed, tuple(known), other, spare, gives_nse)


def without_composed_result(program: Program | Evaluation) -> Program | Evaluation:
    """The program with a plain result in place of a new one in a composed format, which has to be static."""
    if isinstance(program.out_format, str) and is_composed(program.out_format):
        return replace(program, out_format=default_format(program.reached.ndim).notation)
    return program


def _can_be_dynamic(x: SparseOperand | DenseOperand) -> bool:
    if isinstance(x, SparseOperand):
        return isinstance(x, ComposedOperand) or not Format.of(x.format, len(x.shape)).is_dense
    return False


def _capacity(operand: SparseOperand, rng: np.random.Generator) -> int:
    """A capacity that perhaps leaves slots unused, or OWN."""
    has_own = isinstance(operand, ComposedOperand) and (operand.has_parts or rng.random() < 0.3)
    return OWN if has_own else operand.tensor().nse + _padding(operand, rng)


def _padding(operand: SparseOperand, rng: np.random.Generator) -> int:
    """A number of unused slots, which are whole blocks of the trailing dense levels."""
    if isinstance(operand, ComposedOperand):
        return int(rng.choice([0, 1, 5])) * prod(operand.tensor().pattern.parts[0].inner)
    format = Format.of(operand.format, len(operand.shape))
    inner = [operand.shape[level.dim] for level in format.levels[format.ndim - format.trailing_dense :]]
    return int(rng.choice([0, 1, 5])) * int(np.prod(inner, dtype=int))


def _results(programs: list[Program | Evaluation], how: Dynamic) -> list[object]:
    operands = stacked_of(programs, how)
    given = [x for x, known in zip(operands, how.known, strict=True) if not known]
    run = function_of(programs, how)
    if len(programs) == 1 or not any(how.other):
        return [jax.jit(run)(*given)] * len(programs)
    out = jax.jit(jax.vmap(run, how.axes))(*given)
    out = jax.tree.map(np.asarray, out)
    return [jax.tree.map(lambda x: jax.device_put(x[n]), out) for n in range(len(programs))]  # noqa: B023


def stacked_of(programs: list[Program | Evaluation], how: Dynamic) -> list[object]:
    """The operands for jit, or for vmap of several programs, where operands that differ are stacked."""
    made = [[_made(x, how, n) for n, x in enumerate(operands_of(program))] for program in programs]
    if len(made) == 1:
        return made[0]
    every = zip(*made, how.other, strict=True)
    return [jax.tree.map(lambda *x: jax.device_put(np.stack(x)), *of) if other else of[0] for *of, other in every]


def _made(x: SparseOperand | DenseOperand, how: Dynamic, number: int) -> object:
    if isinstance(x, DenseOperand):
        return x.tensor()
    if how.capacities[number] is None:
        return x.taken(x.tensor())
    capacity = how.capacities[number]
    tensor = x.tensor().dynamic(None if capacity == OWN else capacity)
    return x.taken(tensor.with_transpose() if how.transposed[number] else tensor)


def function_of(programs: list[Program | Evaluation], how: Dynamic):
    """The program as a function of all operands but static tables. `nse=` is given where nothing bounds the result."""
    program = programs[0]
    out = program.out_format
    out = out.tensor() if isinstance(out, SparseOperand) else out
    slots = max(_slots(one) for one in programs) + how.spare
    gives_nse = (how.gives_nse or _stores_gaps(program)) and _is_new(program)

    def run(*given):
        left = iter(given)
        named = zip(how.known, operands_of(program), strict=True)
        operands = [x.tensor() if known else next(left) for known, x in named]
        try:
            return called(program, operands, out, slots if gives_nse else None)
        except PatternError as error:
            if "Expected nse=" in str(error):
                return called(program, operands, out, slots)
            if gives_nse and "entries in the result" in str(error) and "of an operand" in str(error):
                return called(program, operands, out, None)  # the result has an operand's pattern and larger nse
            raise

    return run


def _is_new(program: Program | Evaluation) -> bool:
    """Whether the result may have a new pattern: by default, or because a format is requested."""
    if isinstance(program, Program):
        return program.has_new_pattern
    return program.is_sparse or (isinstance(program.out_format, str) and program.out_format != "dense")


def _slots(program: Program | Evaluation) -> int:
    """How many values the result has. It may be in blocks if an operand is composed, which exceed the shape."""
    if has_composed(program):
        return prod(size + MOST_BLOCK for size in program.reached.shape)
    return int(_filled(program).sum())


def _filled(program: Program | Evaluation) -> np.ndarray:
    out = program.out_format
    known = isinstance(out, str) and out != "dense"
    return closure(program.reached, Format.of(out, program.reached.ndim)) if known else program.reached


def _stores_gaps(program: Program | Evaluation) -> bool:
    """Whether the requested format stores gaps, so that entries of operands do not bound the slots of the result."""
    return int(_filled(program).sum()) > int(program.reached.sum())


def called(program: Program | Evaluation, operands, out, nse: int | None) -> object:
    if isinstance(program, Program):
        return jsparse.einsum(program.subscripts, *operands, out_format=out, nse=nse, semiring=program.semiring)
    tensors = dict(zip(_names(program), operands, strict=True))
    shape = {"shape": program.shape} if isinstance(program, Indirect) else {}
    return jsparse.evaluate(program.text, out_format=out, nse=nse, **shape, **tensors)


def operands_of(program: Program | Evaluation) -> list[SparseOperand | DenseOperand]:
    """All operands, tables included."""
    if isinstance(program, Program):
        return list(program.operands)
    return list(program.given.values()) if isinstance(program, Indirect) else [x for _, x in program.tensors]


def _names(program: Evaluation) -> list[str]:
    return list(program.given) if isinstance(program, Indirect) else [name for name, _ in program.tensors]


def tables_of(program: Program | Evaluation) -> set[int]:
    """The operands that are indexed by."""
    if not isinstance(program, Indirect):
        return set()
    return {n for n, name in enumerate(program.given) if name in dict(program.tables)}


def is_linear_in(program: Program | Evaluation, number: int) -> bool:
    """Whether the program is affine in an operand: no product has it twice."""
    if isinstance(program, Program):
        return True
    name = _names(program)[number]
    return all(sum(f.tensor == name for f in term.factors) < 2 for term in parse_statement(program.text).terms)


def thinned(program: Program | Evaluation, how: Dynamic, rng: np.random.Generator) -> Program | Evaluation:
    """The program with fewer entries in the dynamic operands, and with other tables."""
    operands = [
        x if not other else _with_fewer(x, rng) if isinstance(x, SparseOperand) else _shuffled(x, rng)
        for x, other in zip(operands_of(program), how.other, strict=True)
    ]
    if isinstance(program, Program):
        return replace(program, operands=tuple(operands))
    named = dict(zip(_names(program), operands, strict=True))
    replaced = replace(program, tensors=tuple((name, named[name]) for name, _ in program.tensors))
    if not isinstance(replaced, Indirect):
        return replaced
    return replace(replaced, tables=tuple((name, named[name]) for name, _ in replaced.tables))


def _shuffled(table: DenseOperand, rng: np.random.Generator) -> DenseOperand:
    """The table with its integers in another order."""
    return replace(table, values=tuple(rng.permutation(np.array(table.values, np.int64)).tolist()))


def _with_fewer(x: SparseOperand, rng: np.random.Generator) -> SparseOperand:
    x = x.resolved() if isinstance(x, ComposedOperand) else x
    kept = [n for n in range(len(x.values)) if rng.random() < 0.7]
    coords = tuple(tuple(row[n] for n in kept) for row in x.coords)
    return replace(x, coords=coords, values=tuple(x.values[n] for n in kept))
