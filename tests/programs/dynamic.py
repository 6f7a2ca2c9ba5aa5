"""Programs with operands whose patterns are only known at run time: compiled once, perhaps for a whole batch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from programs.evaluation import Evaluation
from programs.program import DenseOperand, Program, SparseOperand, filled
from programs.results import check_assembled, check_places, check_result, empty_of

import jsparse
from jsparse import Format, PatternError, SparseTensor

__all__ = ["run_dynamic"]


@dataclass(frozen=True)
class Dynamic:
    """How a program's operands come.

    Attributes:
        rooms: of each operand, None for a static or dense one.
        transposed: which of them bring a transposed index.
        spare: entries that the result has room for beyond those it has, where it is told.
        told: whether it is told even where operands bound it.
    """

    rooms: tuple[int | None, ...]
    transposed: tuple[bool, ...]
    spare: int
    told: bool


def run_dynamic(program: Program | Evaluation, batched: bool) -> bool:
    """Check the program with some of its operands dynamic, through jit, perhaps a batch of it; False if it has no
    sparse operands that can be."""
    rng = np.random.default_rng((*program.seed, 3))
    how = _drawn(program, rng)
    if how is None:
        return False
    programs = [program, _thinned(program, how, rng)] if batched else [program]
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


def _drawn(program: Program | Evaluation, rng: np.random.Generator) -> Dynamic | None:
    able = [isinstance(x, SparseOperand) and not Format.of(x.format, len(x.shape)).is_dense for x in _operands(program)]
    if not any(able):
        return None
    chosen = [bool(a) and rng.random() < 0.65 for a in able]
    chosen[able.index(True)] |= not any(chosen)
    rooms = tuple(
        x.tensor().nse + _room(x, rng) if c else None for x, c in zip(_operands(program), chosen, strict=True)
    )
    return Dynamic(
        rooms, tuple(c and rng.random() < 0.5 for c in chosen), int(rng.choice([0, 1, 7])), bool(rng.random() < 0.4)
    )


def _room(operand: SparseOperand, rng: np.random.Generator) -> int:
    """Spare slots: whole blocks of the dense levels at the end."""
    format = Format.of(operand.format, len(operand.shape))
    inner = [operand.shape[level.dim] for level in format.levels[format.ndim - format.trailing_dense :]]
    return int(rng.choice([0, 1, 5])) * int(np.prod(inner, dtype=int))


def _results(programs: list[Program | Evaluation], how: Dynamic) -> list[object]:
    made = [[_made(x, how, n) for n, x in enumerate(_operands(program))] for program in programs]
    run = _function(programs, how)
    if len(made) == 1:
        return [jax.jit(run)(*made[0])]
    axes = [None if room is None else 0 for room in how.rooms]
    operands = [
        first if axis is None else jax.tree.map(lambda *x: jnp.stack(x), *(of[n] for of in made))
        for n, (first, axis) in enumerate(zip(made[0], axes, strict=True))
    ]
    out = jax.jit(jax.vmap(run, tuple(axes)))(*operands)
    return [jax.tree.map(lambda x: x[n], out) for n in range(len(made))]  # noqa: B023


def _made(x: SparseOperand | DenseOperand, how: Dynamic, place: int) -> object:
    if how.rooms[place] is None:
        return x.tensor()
    tensor = x.tensor().dynamic(how.rooms[place])
    return tensor.with_transpose() if how.transposed[place] else tensor


def _function(programs: list[Program | Evaluation], how: Dynamic):
    """The program as a function of its operands, with the room of a result that nothing bounds."""
    program = programs[0]
    out = program.out_format
    out = out.tensor() if isinstance(out, SparseOperand) else out
    slots = max(int(_filled(one).sum()) for one in programs) + how.spare
    told = how.told and _is_new(program)

    def run(*operands):
        try:
            return _call(program, operands, out, slots if told else None)
        except PatternError as error:
            if "Expected nse=" not in str(error):
                raise
            return _call(program, operands, out, slots)

    return run


def _is_new(program: Program | Evaluation) -> bool:
    return program.has_new_pattern if isinstance(program, Program) else program.is_sparse


def _filled(program: Program | Evaluation) -> np.ndarray:
    out = program.out_format
    known = isinstance(out, str) and out != "dense"
    return filled(program.reached, Format.of(out, program.reached.ndim)) if known else program.reached


def _call(program: Program | Evaluation, operands, out, nse: int | None) -> object:
    if isinstance(program, Program):
        return jsparse.einsum(program.subscripts, *operands, out_format=out, nse=nse, semiring=program.semiring)
    tensors = dict(zip((name for name, _ in program.tensors), operands, strict=True))
    return jsparse.evaluate(program.text, out_format=out, nse=nse, **tensors)


def _operands(program: Program | Evaluation) -> list[SparseOperand | DenseOperand]:
    return list(program.operands) if isinstance(program, Program) else [x for _, x in program.tensors]


def _thinned(program: Program | Evaluation, how: Dynamic, rng: np.random.Generator) -> Program | Evaluation:
    """The same with fewer entries in the dynamic operands."""
    operands = [
        x if room is None else _with_fewer(x, rng) for x, room in zip(_operands(program), how.rooms, strict=True)
    ]
    if isinstance(program, Program):
        return replace(program, operands=tuple(operands))
    return replace(program, tensors=tuple((n, x) for (n, _), x in zip(program.tensors, operands, strict=True)))


def _with_fewer(x: SparseOperand, rng: np.random.Generator) -> SparseOperand:
    kept = [n for n in range(len(x.values)) if rng.random() < 0.7]
    coords = tuple(tuple(row[n] for n in kept) for row in x.coords)
    return replace(x, coords=coords, values=tuple(x.values[n] for n in kept))
