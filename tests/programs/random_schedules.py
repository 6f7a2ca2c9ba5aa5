"""Random legal schedules of a problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from jsparse.compiler.loops.domain import LevelIteration
from jsparse.compiler.problem import Problem
from jsparse.compiler.schedule import Schedule
from jsparse.compiler.schedule.summary import Summary, Transformation
from jsparse.compiler.schedule.transformations.cache_read import CacheRead
from jsparse.compiler.schedule.transformations.fuse import Fuse
from jsparse.compiler.schedule.transformations.merge_by import MergeBy
from jsparse.compiler.schedule.transformations.parallelize import Parallelize
from jsparse.compiler.schedule.transformations.pos import Pos
from jsparse.compiler.schedule.transformations.precompute import Precompute
from jsparse.compiler.schedule.transformations.prefetch import Prefetch
from jsparse.compiler.schedule.transformations.promote import Promote
from jsparse.compiler.schedule.transformations.reorder import Reorder
from jsparse.compiler.schedule.transformations.scatter import ScatterSegment
from jsparse.compiler.schedule.transformations.specialize import Specialize
from jsparse.compiler.schedule.transformations.split import Split
from jsparse.compiler.schedule.transformations.unroll import Unroll
from jsparse.compiler.schedule.transformations.unroll_and_jam import UnrollAndJam
from jsparse.compiler.schedule.transformations.vectorize import Vectorize
from jsparse.compiler.schedule.transformations.widen import Widen

__all__ = ["KEYWORDS", "random_schedule", "random_step"]

Draw = Callable[[Summary, np.random.Generator], Transformation]


def _loop(nest: Summary, rng: np.random.Generator) -> str:
    return str(rng.choice(nest.loops)) if nest.loops else "none"


def _reorder(nest: Summary, rng: np.random.Generator) -> Transformation:
    return Reorder(tuple(map(str, rng.permutation(nest.loops))))


def _fuse(nest: Summary, rng: np.random.Generator) -> Transformation:
    at = int(rng.integers(max(len(nest.loops) - 1, 1)))
    return Fuse(*(*nest.loops[at : at + 2], "none", "none")[:2])


def _precompute(nest: Summary, rng: np.random.Generator) -> Transformation:
    at = int(rng.integers(max(len(nest.loops), 1)))
    return Precompute(nest.loops[at : at + int(rng.integers(1, 3))])


def _cache_read(nest: Summary, rng: np.random.Generator) -> Transformation:
    name = str(rng.choice([f.tensor for f in nest.factors])) if nest.factors else "A"
    return CacheRead(name, str(rng.choice(list(nest.outer))) if nest.outer else "none")


def _merge_by(nest: Summary, rng: np.random.Generator) -> Transformation:
    return MergeBy(_loop(nest, rng), f"P{rng.integers(max(len(nest.problem.patterns), 1))}")


def _level(nest: Summary, rng: np.random.Generator) -> str:
    """A level that is looked up, mostly."""
    looked_up = [x.domain for _, x in nest.chain if isinstance(x.domain, LevelIteration) and x.is_lookup]
    if looked_up and rng.random() < 0.9:
        domain = looked_up[int(rng.integers(len(looked_up)))]
        return f"P{domain.pattern}.{domain.level}"
    return f"P{rng.integers(max(len(nest.problem.patterns), 1))}.{rng.integers(2)}"


def _parallelize(nest: Summary, rng: np.random.Generator) -> Transformation:
    race = str(rng.choice(["owned", "split", "reduced", "binned"]))
    return Parallelize(nest.loops[0] if nest.loops and rng.random() < 0.7 else _loop(nest, rng), race, 1)


def _specialize(nest: Summary, rng: np.random.Generator) -> Transformation:
    loop = next((name for name, var in nest.outer.items() if var == nest.vector), "none")
    return Specialize("threads", loop, nest.lanes + int(rng.integers(1, 4)))


_DRAWN: dict[str, Draw] = {
    "reorder": _reorder,
    "split": lambda nest, rng: Split(_loop(nest, rng), int(rng.choice([1, 2, 3, 5, 8]))),
    "pos": lambda nest, rng: Pos(_loop(nest, rng)),
    "fuse": _fuse,
    "vectorize": lambda nest, rng: Vectorize(_loop(nest, rng), int(rng.choice([0, 0, 2, 4]))),
    "precompute": _precompute,
    "promote": lambda nest, rng: Promote(),
    "cache_read": _cache_read,
    "merge_by": _merge_by,
    "scatter": lambda nest, rng: ScatterSegment(_level(nest, rng)),
    "unroll": lambda nest, rng: Unroll(_loop(nest, rng)),
    "unroll_and_jam": lambda nest, rng: UnrollAndJam(_loop(nest, rng), int(rng.integers(2, 4))),
    "specialize": _specialize,
    "parallelize": _parallelize,
    "prefetch": lambda nest, rng: Prefetch(_loop(nest, rng), int(rng.choice([1, 4]))),
    "widen": lambda nest, rng: Widen(int(rng.choice([0, 2, 64]))),
}
KEYWORDS = tuple(_DRAWN)
_STRUCTURE = ("reorder", "split", "pos", "fuse", "vectorize", "split", "vectorize")


def random_step(nest: Summary, keyword: str, rng: np.random.Generator) -> Transformation:
    """A step of that keyword, which may be illegal."""
    return _DRAWN[keyword](nest, rng)


def random_schedule(problem: Problem, rng: np.random.Generator, start: Summary | None = None) -> Schedule:
    """A schedule of legal steps, for the problem as it is stored. Steps that change the structure come first."""
    nest = Summary.canonical(problem) if start is None else start
    for keyword in _keywords(rng):
        if keyword == "scatter" and nest.concordant:  # which levels are looked up depends on the storage orders
            continue
        step = random_step(nest, keyword, rng)
        if step.check(nest) is None:
            nest = nest.then(step)
    if nest.vector is not None and nest.vector not in nest.free_vars and nest.first("promote") is None:
        nest = nest.then(Promote())
    return Schedule(nest.steps)


def _keywords(rng: np.random.Generator) -> Iterator[str]:
    for _ in range(int(rng.integers(8))):
        yield str(rng.choice(_STRUCTURE))
    if rng.random() < 0.5:
        yield "precompute"
    yield from ("merge_by", "cache_read")
    if rng.random() < 0.8:
        yield "promote"
    yield from ("scatter",) * int(rng.integers(4))
    for _ in range(int(rng.integers(8))):
        yield str(rng.choice(KEYWORDS))
