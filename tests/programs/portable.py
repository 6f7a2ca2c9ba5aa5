"""Runs specs by their rule for platforms without kernels, with static and dynamic patterns, and in small chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import jax
import numpy as np
from programs.case import Case
from programs.program import is_wide

from jsparse.formats.dynamic import pad
from jsparse.primitives.portable.einsum import compute_einsum
from jsparse.primitives.portable.summed import ACCELERATOR, CPU, GPU, Machine
from jsparse.primitives.spec import Spec
from jsparse.tensor.dynamic_pattern import dynamic_type

__all__ = ["run_by_rule"]

MACHINES = {
    "CPU": CPU,
    "accelerator": ACCELERATOR,
    "GPU": GPU,
    "small chunks": Machine(64, sums_by_products=True, uses_order=True, has_float64=False),
    "other small chunks": Machine(200, sums_by_products=False, uses_order=False),
}


def run_by_rule(case: Case, rng: np.random.Generator) -> Iterator[tuple[str, Callable[[], np.ndarray]]]:
    """A description of a way to run a case, and the result in that way, in the shape of the spec's result."""
    dtype = case.plan.given.tensors[0].dtype
    spec = case.spec.with_dtype(np.dtype(dtype), [x.dtype for x in case.arrays]).without_schedule
    machine = str(rng.choice(list(MACHINES)))
    dynamic = [bool(can and rng.random() < 0.5) for can in (not w.pattern.format.is_dense for w in spec.walks)]
    spare = [int(rng.choice([0, 1, 5])) if chosen else None for chosen in dynamic]
    yield f"rule for {machine}, capacities {spare}", lambda: _run(spec, case.arrays, MACHINES[machine], spare)


def _run(spec: Spec, arrays: tuple[np.ndarray, ...], machine: Machine, spare: list[int | None]) -> np.ndarray:
    wide = is_wide(spec.dtype_of(arrays).name) or any(is_wide(x.dtype.name) for x in arrays)
    shaped = [x.reshape(spec.shape(term)) for x, term in zip(arrays, spec.factors, strict=True)]
    walks, index = list(spec.walks), list[np.ndarray]()
    with jax.enable_x64(wide):
        for n, (walk, more) in enumerate(zip(spec.walks, spare, strict=True)):
            if more is not None:
                type_ = dynamic_type(walk.pattern.shape, walk.pattern.format, walk.pattern.nse + more)
                walks[n] = replace(walk, pattern=type_)
                index += pad(walk.pattern, type_.nse)
        padded = replace(spec, walks=tuple(walks))
        shaped = [_padded(x, padded.shape(term)) for x, term in zip(shaped, spec.factors, strict=True)]
        found = np.asarray(jax.jit(partial(compute_einsum, spec=padded, machine=machine))(*shaped, *index))
    assert found.dtype == spec.dtype_of(arrays)
    assert found.shape == padded.shape(spec.result)
    used = found[tuple(slice(size) for size in spec.shape(spec.result))]
    assert np.count_nonzero(found) == np.count_nonzero(used), "padding is not zero"
    return used


def _padded(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array in a larger shape. What is in padding counts nowhere."""
    found = np.ones(shape, x.dtype)
    found[tuple(slice(size) for size in x.shape)] = x
    return found
