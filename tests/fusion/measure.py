"""How a fused function compares with the function itself: errors, kernels, and arrays of stored entries."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from jsparse.primitives.chain.grouping import groups

__all__ = ["arrays_of_entries", "arrays_of_features", "check_close", "compiled", "is_one_chain", "kernel_count"]

_SHAPE = re.compile(r"\b(?:pred|bf16|[fsuc]\d+\w*)\[([\d,]+)\]")


def check_close(found: Any, wanted: Any, exact: Any, dtype: str, text: str) -> None:
    """Assert that errors of one result are at most a few times those of another, and of rounding."""
    rounding = {"bfloat16": 2.0**-8, "float32": 2.0**-23, "float64": 2.0**-45}[dtype]
    pairs = zip(*map(jax.tree.leaves, (found, wanted, exact)), strict=True)
    for number, leaves in enumerate(pairs):
        a, b, c = (np.asarray(x, np.float64) for x in leaves)
        assert (leaves[0].dtype, a.shape) == (leaves[1].dtype, b.shape), f"result {number} of {text}"
        np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b), f"result {number} of {text}")
        finite = np.isfinite(b)
        a, b, c = a[finite], b[finite], c[finite]
        allowed = 4 * np.abs(b - c).max(initial=0) + 32 * rounding * max(np.abs(c).max(initial=0), 1e-3)
        assert np.abs(a - c).max(initial=0) <= allowed, (
            f"result {number}: {np.abs(a - c).max()} > {allowed}, of the order {np.abs(c).max()}; {text}"
        )


def compiled(f: Callable[..., Any], *operands: Any) -> str:
    """The optimized HLO of `f`."""
    return str(jax.jit(f).lower(*operands).compile().as_text())


def kernel_count(text: str) -> int:
    """The number of our kernels in a compiled program."""
    return sum("custom-call(" in line and "jsparse" in line for line in text.splitlines())


def arrays_of_entries(text: str, nses: Sequence[int]) -> list[str]:
    """The arrays in a compiled program with an element for each stored entry."""
    found = {match.group(0) for match in _SHAPE.finditer(text)}
    return [
        x
        for x in found
        if any(int(n) % nse == 0 for n in x[x.index("[") + 1 : -1].split(",") for nse in nses if int(n))
    ]


def arrays_of_features(text: str, nses: Sequence[int]) -> list[str]:
    """The arrays in a compiled program with several elements for each stored entry."""
    several = (
        x for x in arrays_of_entries(text, nses) if sum(n != "1" for n in x[x.index("[") + 1 : -1].split(",")) > 1
    )
    return list(several)


def is_one_chain(f: Callable[..., Any], *operands: Any) -> bool:
    """Whether all of our operations in a function become one kernel."""
    steps = groups(jax.make_jaxpr(f)(*operands))[1]
    others = [e.primitive.name for step in steps if not step.is_fused for e in step.closed.jaxpr.eqns]
    return sum(step.is_fused for step in steps) == 1 and not any(name.startswith("jsparse") for name in others)
