"""Programs with operands whose patterns are only known at run time, and tables: compiled once, perhaps for a whole
batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import numpy as np
from programs.evaluation import Evaluation
from programs.indirection import Indirect
from programs.program import DenseOperand, Program, SparseOperand
from programs.results import check_assembled, check_places, check_result, empty_of
from stored import closure

import jsparse
from jsparse import Format, PatternError, SparseTensor
from jsparse.notation import parse_statement

__all__ = [
    "Dynamic",
    "drawn",
    "function_of",
    "is_linear_in",
    "operands_of",
    "run_dynamic",
    "stacked_of",
    "tables_of",
    "thinned",
]


@dataclass(frozen=True)
class Dynamic:
    """How a program's operands come.

    Attributes:
        rooms: of each operand, None for a static or dense one.
        transposed: which of them bring a transposed index.
        known: tables that are not traced.
        other: operands that another program of the batch has others for: dynamic ones, and traced tables.
        spare: entries that the result has room for beyond those it has, where it is told.
        told: whether it is told even where operands bound it.
    """

    rooms: tuple[int | None, ...]
    transposed: tuple[bool, ...]
    known: tuple[bool, ...]
    other: tuple[bool, ...]
    spare: int
    told: bool

    @property
    def axes(self) -> tuple[int | None, ...]:
        """Of the operands that are given to a batch of programs."""
        named = zip(self.other, self.known, strict=True)
        return tuple(0 if other else None for other, known in named if not known)


def run_dynamic(program: Program | Evaluation, batched: bool) -> bool:
    """Check the program with some of its operands dynamic, through jit, perhaps a batch of it; False if it has no
    sparse operands that can be."""
    rng = np.random.default_rng((*program.seed, 3))
    how = drawn(program, rng)
    if how is None:
        return False
    programs = [program, thinned(program, how, rng)] if batched else [program]
    with jax.enable_x64(program.needs_x64):
        results = _results(programs, how)
    for one, got in zip(programs, results, strict=True):
        _check(one, got)
    return True


def _check(program: Program | Evaluation, got: object) -> None:
    if not isinstance(got, SparseTensor) or not got.is_dynamic:
        check_result(program, got)
        return
    assert not bool(got.overflowed)
    got.validate()
    values, used = np.asarray(got.values), got.static()
    assert not values[used.nse :].any(), "values out of use are not zero"
    if isinstance(program.out_format, SparseOperand):
        check_result(program, used)
        return
    check_assembled(
        used, program.expected, program.out_format, empty_of(program)
    )  # two patterns, be they alike, give one of its own
    check_places(program, used.pattern)


def drawn(program: Program | Evaluation, rng: np.random.Generator) -> Dynamic | None:
    """How its operands come; None if there are none that can be dynamic."""
    operands = operands_of(program)
    able = [isinstance(x, SparseOperand) and not Format.of(x.format, len(x.shape)).is_dense for x in operands]
    tables = tables_of(program)
    if not any(able) and not tables:
        return None
    chosen = [bool(a) and rng.random() < 0.65 for a in able]
    if True in able and not tables:
        chosen[able.index(True)] |= not any(chosen)
    rooms = tuple(x.tensor().nse + _room(x, rng) if c else None for x, c in zip(operands, chosen, strict=True))
    transposed = tuple(c and rng.random() < 0.5 for c in chosen)
    spare, told = int(rng.choice([0, 1, 7])), bool(rng.random() < 0.4)
    known = [n in tables and rng.random() < 0.25 for n in range(len(operands))]
    other = tuple(c or (n in tables and not known[n] and rng.random() < 0.7) for n, c in enumerate(chosen))
    return Dynamic(rooms, transposed, tuple(known), other, spare, told)


def _room(operand: SparseOperand, rng: np.random.Generator) -> int:
    """Spare slots: whole blocks of the dense levels at the end."""
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
    """The operands as they come: of several programs, those that differ are stacked."""
    made = [[_made(x, how, n) for n, x in enumerate(operands_of(program))] for program in programs]
    if len(made) == 1:
        return made[0]
    every = zip(*made, how.other, strict=True)
    return [jax.tree.map(lambda *x: jax.device_put(np.stack(x)), *of) if other else of[0] for *of, other in every]


def _made(x: SparseOperand | DenseOperand, how: Dynamic, place: int) -> object:
    if how.rooms[place] is None:
        return x.tensor()
    tensor = x.tensor().dynamic(how.rooms[place])
    return tensor.with_transpose() if how.transposed[place] else tensor


def function_of(programs: list[Program | Evaluation], how: Dynamic):
    """The program as a function of its operands but for tables that are known, with the room of a result that nothing
    bounds."""
    program = programs[0]
    out = program.out_format
    out = out.tensor() if isinstance(out, SparseOperand) else out
    slots = max(int(_filled(one).sum()) for one in programs) + how.spare
    told = how.told and _is_new(program)

    def run(*given):
        left = iter(given)
        named = zip(how.known, operands_of(program), strict=True)
        operands = [x.tensor() if known else next(left) for known, x in named]
        try:
            return called(program, operands, out, slots if told else None)
        except PatternError as error:
            if "Expected nse=" in str(error):
                return called(program, operands, out, slots)
            if told and "entries in the result" in str(error) and "of an operand" in str(error):
                return called(program, operands, out, None)  # it lies on an operand's pattern, with more room than told
            raise

    return run


def _is_new(program: Program | Evaluation) -> bool:
    return program.has_new_pattern if isinstance(program, Program) else program.is_sparse


def _filled(program: Program | Evaluation) -> np.ndarray:
    out = program.out_format
    known = isinstance(out, str) and out != "dense"
    return closure(program.reached, Format.of(out, program.reached.ndim)) if known else program.reached


def called(program: Program | Evaluation, operands, out, nse: int | None) -> object:
    if isinstance(program, Program):
        return jsparse.einsum(program.subscripts, *operands, out_format=out, nse=nse, semiring=program.semiring)
    tensors = dict(zip(_names(program), operands, strict=True))
    shape = {"shape": program.shape} if isinstance(program, Indirect) else {}
    return jsparse.evaluate(program.text, out_format=out, nse=nse, **shape, **tensors)


def operands_of(program: Program | Evaluation) -> list[SparseOperand | DenseOperand]:
    """Tables included."""
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


def is_linear_in(program: Program | Evaluation, place: int) -> bool:
    """Whether the program, but for what it adds, is linear in an operand: no product has it twice."""
    if isinstance(program, Program):
        return True
    name = _names(program)[place]
    return all(sum(f.tensor == name for f in term.factors) < 2 for term in parse_statement(program.text).terms)


def thinned(program: Program | Evaluation, how: Dynamic, rng: np.random.Generator) -> Program | Evaluation:
    """The same with fewer entries in the dynamic operands, and other tables."""
    operands = [
        x if not other else _with_fewer(x, rng) if isinstance(x, SparseOperand) else _turned(x, rng)
        for x, other in zip(operands_of(program), how.other, strict=True)
    ]
    if isinstance(program, Program):
        return replace(program, operands=tuple(operands))
    named = dict(zip(_names(program), operands, strict=True))
    replaced = replace(program, tensors=tuple((name, named[name]) for name, _ in program.tensors))
    if not isinstance(replaced, Indirect):
        return replaced
    return replace(replaced, tables=tuple((name, named[name]) for name, _ in replaced.tables))


def _turned(table: DenseOperand, rng: np.random.Generator) -> DenseOperand:
    """The same integers at other places."""
    return replace(table, values=tuple(rng.permutation(np.array(table.values, np.int64)).tolist()))


def _with_fewer(x: SparseOperand, rng: np.random.Generator) -> SparseOperand:
    kept = [n for n in range(len(x.values)) if rng.random() < 0.7]
    coords = tuple(tuple(row[n] for n in kept) for row in x.coords)
    return replace(x, coords=coords, values=tuple(x.values[n] for n in kept))
