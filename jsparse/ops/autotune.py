"""`jsparse.autotune`: formats and schedules of an einsum or a statement, chosen by measurement."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from operator import attrgetter, itemgetter
from statistics import median
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse.base.dataclass import dataclass
from jsparse.base.memo import forget_everything
from jsparse.base.progress import working
from jsparse.compiler.schedule import Schedule
from jsparse.compiler.schedule.search.cheapest import cheapest_schedules
from jsparse.compiler.schedule.search.statements import wide_accumulation_plan
from jsparse.compiler.semiring import Semiring
from jsparse.convert.choice import choose_format
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import JsparseError, ScheduleError, SubscriptError, short_repr, shorten
from jsparse.notation.einsum import operand_name
from jsparse.ops.einsum import einsum
from jsparse.ops.evaluate import evaluate
from jsparse.ops.explanation import html
from jsparse.ops.explanation.traffic import as_time
from jsparse.planning.signature import OutFormat
from jsparse.primitives.tuned import Kernel, Search, general, keep_schedule, searching
from jsparse.tensor.sparse_tensor import PatternLike, SparseTensor, TensorLike

__all__ = ["Trial", "Tuned", "autotune"]

GAIN = 0.97  # the most that a trial may take, relative to the default, to count as faster
CANDIDATES = 6  # schedules of a kernel that are tried, the cheapest by price
DEAR = 4.0  # what a program may cost, relative to the cheapest one, to be tried
MOST = 16  # the maximum number of schedules that are tried in addition to the defaults
FAR, SLOWER, SURE = 4.0, 1.25, 5  # a program this much slower is dropped: after one round, and after `SURE` rounds
SAMPLE = 2e-3  # seconds of a sample: short programs run several times
UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "": 1.0}
COLUMNS = ("formats", "schedule", "price", "time", "ratio")

Operands: TypeAlias = Mapping[str, object]
Run: TypeAlias = Callable[[Operands], object]
Formats: TypeAlias = tuple[tuple[str, str], ...]

_clock = time.perf_counter


@dataclass(frozen=True)
class Trial:
    """One row of the table of `autotune`.

    Attributes:
        formats: a pair (operand, format) for each sparse operand. Operands of an einsum are called A, B and so on.
        schedules: a pair (statement, schedule) for each kernel that had another schedule than the scheduler chooses.
        price: the estimated cost of all kernels whose schedules can be tuned, in multiply-adds.
        seconds: the median time of a call under jit.
        ratio: the median ratio to the first trial, the operands as given with the schedules of the scheduler, in the
            same round.
    """

    formats: Formats
    schedules: tuple[tuple[str, Schedule], ...]
    price: float
    seconds: float
    ratio: float

    def _cells(self) -> tuple[str, ...]:
        formats = ", ".join(f"{name} {format}" for name, format in self.formats)
        steps = "; ".join(str(schedule).replace("\n", ", ") for _, schedule in self.schedules)
        return formats, steps or "default", f"{self.price:.4g}", as_time(self.seconds), f"{self.ratio:.2f}"


@dataclass(frozen=True)
class Tuned:
    """The formats and schedules that `autotune` tried. Its text is a table.

    Attributes:
        text: the statement.
        trials: what was tried. The first one is what runs without `autotune`. Programs that were timed twice, because
            they were the fastest at first, come before the others.
        best: the fastest trial; the first one unless another is faster by at least 3 %.
    """

    text: str
    trials: tuple[Trial, ...]
    best: Trial

    @property
    def formats(self) -> dict[str, str]:
        """The formats of the best trial, by operand: convert operands to these by `asformat` or `decompose`."""
        return dict(self.best.formats)

    @property
    def schedule(self) -> Schedule | None:
        """The schedule of the best trial; None for the one that the scheduler chooses."""
        return next((schedule for _, schedule in self.best.schedules), None)

    @property
    def _title(self) -> str:
        formats, steps, _, seconds, ratio = self.best._cells()
        return f"{self.text}: {formats} with {steps}, {seconds}, {ratio} of the default"

    def __str__(self) -> str:
        rows = [COLUMNS, *(trial._cells() for trial in self.trials)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        order = (0, 2, 3, 4, 1)  # schedules are long, so they stand last
        lines = ("  ".join(row[n].ljust(widths[n]) for n in order).rstrip() for row in rows)
        return "\n".join([self._title, *lines])

    def __repr__(self) -> str:
        return f"<Tuned: {self._title}>"

    def _repr_html_(self) -> str:
        rows = [trial._cells() for trial in self.trials]
        return html.block([html.heading(self._title), html.table(COLUMNS, rows)])


class _Program(NamedTuple):
    """A compiled program: the statement on operands in certain formats, with the schedules of some kernels.

    Attributes:
        operands: the operands by name. Programs with operands in the same formats have the same dict.
        schedules: the schedules of the search, by the keys of kernels. The scheduler chooses the others.
        kernels: all kernels whose schedules can be chosen, by key.
        price: the estimated cost of these kernels.
        step: runs the program, and waits for the result.
    """

    operands: Operands
    schedules: dict[str, Schedule]
    kernels: dict[str, Kernel]
    price: float
    step: Callable[[], object]

    def trial(self, own: Sequence[float], first: Sequence[float]) -> Trial:
        """The row of the table, from samples of this program and of the first one."""
        formats = tuple((name, x.format.name) for name, x in self.operands.items() if isinstance(x, SparseTensor))
        named = tuple((str(self.kernels[key][0].statement), schedule) for key, schedule in self.schedules.items())
        return Trial(formats, named, self.price, median(own), _ratio(own, first))


def autotune(
    text: str,
    /,
    *operands: TensorLike | PatternLike,
    budget: str | float = "5s",
    out_format: OutFormat = None,
    nse: int | None = None,
    shape: tuple[int, ...] | None = None,
    semiring: str | Semiring = "plus_times",
    preferred_element_type: DTypeLike | None = None,
    **tensors: TensorLike | PatternLike,
) -> Tuned:
    """Measure which formats of the operands and which schedules make an einsum or a statement fastest on this machine.

        >>> tuned = jsparse.autotune("ij,jk->ik", A, X, budget="100ms")
        >>> tuned.trials[0].formats
        (('A', 'csr'),)
        >>> print(jsparse.autotune("C[i,k] = A[i,j] * X[j,k]", A=A, X=X, budget=0.1))
        C[i,k] = A[i,j] * X[j,k]: ...

        >>> with jsparse.config(autotune="use"):  # or jsparse.config.autotune = "use"
        ...     C = jsparse.einsum("ij,jk->ik", A, X)

    First the cost of each program is estimated. The cheapest ones are compiled and timed, alternating with the default.
    A program counts as faster if it saves 3 %. The schedules that were faster, for the given formats and for the best
    ones, are kept in `jsparse.config.cache_dir`, and used under `jsparse.config.autotune = "use"` for patterns like
    these. The caller decides whether to convert operands to the best formats. See docs/how_to/autotune.md.

    Args:
        text: subscripts as in `einsum`, or a statement as in `evaluate`.
        operands, tensors: the operands of an einsum, or the tensors of a statement by name, of the shapes, dtypes and
            patterns that the program will have. Static tensors are also tried in other formats.
        budget: the time for the search, a number of seconds or text such as "500ms", "5s" or "1min". A program that is
            running or being compiled at the end is completed.
        out_format, nse, shape, semiring, preferred_element_type: as in `einsum` and `evaluate`.

    Returns:
        A table of what was tried, with the best formats and schedules.

    Raises:
        ScheduleError: the budget is not a positive time, an operand is traced, or there is nothing to choose.
        SubscriptError: the first argument is not text.
        The errors of `einsum` and `evaluate`.
    """
    seconds = _seconds(budget, text)
    options = {"nse": nse, "semiring": semiring, "preferred_element_type": preferred_element_type}
    options |= {"out_format": as_sparse_operand(out_format, "autotune", composed=True)}
    by_name = tensors or {operand_name(n): x for n, x in enumerate(operands)}
    named = {name: as_sparse_operand(x, "autotune", composed=True) for name, x in by_name.items()}
    for name, x in named.items():
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(x)):
            raise ScheduleError(
                f"Expected known operands of autotune for '{shorten(text)}', because autotune runs it, but {name} is "
                "traced. Call autotune before the transformed function, with tensors of the same sizes."
            )

    def run(converted: Operands) -> object:
        if tensors:
            return evaluate(text, shape=shape, **options, **converted)  # type: ignore[arg-type]
        return einsum(text, *converted.values(), **options)  # type: ignore[arg-type]

    with working(f"autotuning '{shorten(text)}'", is_long=True) as tick:
        return _tune(shorten(text), named, run, seconds, tick)


def _tune(text: str, operands: Operands, run: Run, seconds: float, tick: Callable[[int], None]) -> Tuned:
    start = _clock()
    programs = _compile_cheapest(operands, run, start + 0.4 * seconds)
    if len(programs) == 1 and not programs[0].kernels:
        raise ScheduleError(
            f"Expected '{text}' to have a kernel with a schedule to choose, or an operand with a format to choose, but "
            "got neither. Pass a static SparseTensor, or do not call autotune."
        )
    samples = _race([p.step for p in programs], start + 0.65 * seconds, tick)
    finalists = _finalists(programs, samples, run)
    final = _race([p.step for p in finalists], start + seconds, tick)
    _keep(finalists, final)
    timed = [(p.trial(own, final[0]), own) for p, own in zip(finalists, final, strict=True) if own]
    first, *others = [trial for trial, _ in timed]
    faster = [trial for trial, own in timed if _is_faster(own, final[0])]
    known = {(t.formats, t.schedules) for t in (first, *others)}
    earlier = [p.trial(own, samples[0]) for p, own in zip(programs, samples, strict=True) if own]
    left = [t for t in earlier if (t.formats, t.schedules) not in known]
    by_ratio = attrgetter("ratio")
    trials = (first, *sorted(others, key=by_ratio), *sorted(left, key=by_ratio))
    return Tuned(text, trials, min([first, *faster], key=by_ratio))


def _seconds(budget: str | float, text: str) -> float:
    """The seconds of a budget. Raises ScheduleError if it is not a positive time, SubscriptError if `text` is none."""
    if not isinstance(text, str):
        raise SubscriptError(
            f"Expected subscripts and operands as in autotune('ij,jk->ik', A, X), or a statement and named tensors, "
            f"but got {short_repr(text)}."
        )
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(ms|s|min|)\s*", str(budget))
    seconds = 0.0 if match is None else float(match[1]) * UNITS[match[2]]
    if not seconds or isinstance(budget, bool):
        raise ScheduleError(
            f"Expected budget= of autotune for '{shorten(text)}' to be a positive time, but got "
            f"{short_repr(budget)}. Pass seconds, or text such as '500ms', '5s' or '1min'."
        )
    return seconds


def _variants(operands: Operands) -> Iterator[Operands]:
    """Yield the operands as they are, then those on each static pattern in the other formats that its facts allow."""
    yield operands
    static = [x for x in operands.values() if isinstance(x, SparseTensor) and not x.is_dynamic]
    for x in {x.pattern: x for x in static}.values():
        convert = {one.name: one.convert for one in choose_format(x).considered}
        convert |= {"csc": lambda tensor: tensor.asformat("csc")} if x.ndim == 2 else {}
        for format in [format for format in convert if format != x.format.name]:
            others = {id(y): convert[format](y) for y in static if y.pattern == x.pattern}
            yield {name: others.get(id(y), y) for name, y in operands.items()}


def _program(operands: Operands, run: Run, schedules: dict[str, Schedule]) -> _Program:
    search = Search(schedules)
    # Arrays of integers may be tables of indices, which planning reads: they are constants of the program.
    arrays = {name: x for name, x in operands.items() if isinstance(x, np.ndarray | jax.Array)}
    given: dict[str, Any] = {name: x for name, x in arrays.items() if jnp.issubdtype(x.dtype, jnp.inexact)}
    given |= {name: x for name, x in operands.items() if isinstance(x, SparseTensor)}
    arguments = jax.tree.map(jnp.asarray, given)
    with searching(search):
        program = jax.jit(lambda given: run({**operands, **given})).lower(arguments).compile()
    plans = (wide_accumulation_plan(*kernel, schedules.get(key)) for key, kernel in search.kernels.items())
    price = sum(plan.cost.total for plan in plans)
    return _Program(operands, schedules, search.kernels, price, lambda: jax.block_until_ready(program(arguments)))


def _compile_cheapest(operands: Operands, run: Run, end: float) -> list[_Program]:
    """Compile the program in each format, then those with other schedules, the cheapest first, as time allows."""
    programs: list[_Program] = []
    for variant in _variants(operands):
        if programs and _clock() > end:
            break
        with suppress(*((JsparseError,) if programs else ())):  # not every statement takes every format
            programs.append(_program(variant, run, {}))
    every = [(price, n, key, s) for n, p in enumerate(programs) for price, key, s in _challengers(p)]
    limit = DEAR * min(p.price for p in programs)
    for price, n, key, schedule in sorted(every, key=itemgetter(0))[:MOST]:
        if price > limit or _clock() > end:
            break
        programs.append(_program(programs[n].operands, run, {key: schedule}))
    return programs


def _challengers(program: _Program) -> Iterator[tuple[float, str, Schedule]]:
    """Yield the schedules to try besides the default: the price of the program, the kernel's key, and the schedule."""
    for key, kernel in program.kernels.items():
        default = wide_accumulation_plan(*kernel)
        seen = {default.schedule}
        for candidate in cheapest_schedules(*kernel, CANDIDATES):
            with suppress(ScheduleError):
                schedule = general(candidate)
                plan = wide_accumulation_plan(*kernel, schedule)
                if plan.schedule not in seen:
                    seen.add(plan.schedule)
                    yield program.price - default.cost.total + plan.cost.total, key, schedule


def _race(steps: Sequence[Callable[[], object]], end: float, tick: Callable[[int], None]) -> list[list[float]]:
    """Time programs in turns until `end`. Return the seconds of each program in each round, until it was dropped.

    Programs that are clearly slower are dropped, but never the first one, which runs at least once.
    """
    samples: list[list[float]] = [[] for _ in steps]
    repeats = [max(1, round(SAMPLE / max(_seconds_per_step(step, 1), 1e-6))) for step in steps]
    left = list(range(len(steps)))
    while not samples[0] or (_clock() < end and (len(left) > 1 or len(samples[0]) < SURE)):
        for n in left:
            if samples[0] and _clock() >= end:
                break
            samples[n].append(_seconds_per_step(steps[n], repeats[n]))
            tick(0)
        least = min(min(samples[n]) for n in left if samples[n])  # other work on the machine only adds to times
        far = FAR if len(samples[0]) < SURE else SLOWER
        left = [n for n in left if n == 0 or not samples[n] or min(samples[n]) <= far * least]
    return samples


def _seconds_per_step(step: Callable[[], object], repeats: int) -> float:
    step()  # brings arrays and code into caches
    start = _clock()
    for _ in range(repeats):
        step()
    return (_clock() - start) / repeats


def _ratio(own: Sequence[float], other: Sequence[float]) -> float:
    """The median ratio of two programs in the rounds that both ran in."""
    ratios = [a / b for a, b in zip(own, other, strict=False)]
    return median(ratios) if ratios else inf


def _is_faster(own: Sequence[float], other: Sequence[float]) -> bool:
    """Whether a program is faster beyond doubt: in most rounds, and in the best of them.

    Other work on the machine only adds to times. A program that only seems faster would replace a better one for good.
    """
    return min(len(own), len(other)) >= SURE and _ratio(own, other) <= GAIN and min(own) <= GAIN * min(other)


def _finalists(programs: Sequence[_Program], samples: Sequence[Sequence[float]], run: Run) -> list[_Program]:
    """The default in the given and in the fastest formats, each followed by the fastest schedules for these formats.

    They are timed again: the least of many times is often due to chance.
    """
    least = [min(own, default=inf) for own in samples]
    fastest = programs[least.index(min(least))]
    finalists: list[_Program] = []
    for operands in [programs[0].operands, *([] if fastest.operands is programs[0].operands else [fastest.operands])]:
        default, *others = (n for n, p in enumerate(programs) if p.operands is operands)
        faster = sorted((n for n in others if least[n] <= GAIN * least[default]), key=lambda n: -least[n])
        best: dict[str, Schedule] = {}
        for n in faster:
            best |= programs[n].schedules
        alone = next((programs[n] for n in faster if programs[n].schedules == best), None)
        finalists += [programs[default], *([alone or _program(operands, run, best)] if best else [])]
    return finalists


def _keep(finalists: Sequence[_Program], samples: Sequence[Sequence[float]]) -> None:
    """Keep the schedules that are faster than the default in the same formats, and forget older ones that are not."""
    if len(samples[0]) < SURE:
        return
    for default, own in zip(finalists, samples, strict=True):
        if default.schedules:
            continue
        tuned = [(p, x) for p, x in zip(finalists, samples, strict=True) if p.operands is default.operands]
        faster = next((p.schedules for p, x in tuned if _is_faster(x, own)), {})
        for key in default.kernels:
            keep_schedule(key, faster.get(key))
    forget_everything()  # plans and programs outside of jit that have other schedules
