"""The time of planning and of scheduling, for 2 to 6 operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from harness import Case, Step

import jsparse
from jsparse.base.memo import forget_everything
from jsparse.planning.plan import AssembledPattern, SumOfProducts
from jsparse.planning.planned import plan_einsum
from jsparse.primitives.entries_spec import entries_plan
from jsparse.primitives.execute import make_plan

SIZES = dict(zip("ijklmr", (300, 400, 200, 100, 50, 16), strict=True))
STORED = 3_000

# Terms in capital letters are sparse operands.
EINSUMS = {
    "product, 2 operands": "IJ,jk->ik",
    "sampled product, 3 operands": "ik,jk,IJ->ij",
    "MTTKRP, 3 operands": "IJK,jr,kr->ir",
    "of order 4, 4 operands": "IJKL,jr,kr,lr->ir",
    "all sparse, 6 operands": "IJ,IJ,IJ,IJ,IJ,IJ->ij",
    "all but one dense, 6 operands": "IJKL,ir,jr,kr,lr,r->",
    "chain, 6 operands": "IJ,JK,KL,lm,m,im->i",
}


def cases() -> list[Case]:
    """The cases: planning and scheduling."""
    return [
        Case("stated", "formats and steps of an einsum", _steps(_stating), lambda: 0),
        Case("scheduled", "loop orders of an einsum, all nests", _steps(_scheduling), lambda: 0),
    ]


def _steps(of: Callable[[str, list[Any]], Step]) -> dict[str, Callable[[], Step]]:
    return {name: lambda text=text: of(text.lower(), _operands(text)) for name, text in EINSUMS.items()}


def _operands(text: str) -> list[Any]:
    rng = np.random.default_rng(0)
    return [_operand(rng, term) for term in text.split("->")[0].split(",")]


def _operand(rng: np.random.Generator, term: str) -> Any:
    shape = tuple(SIZES[v] for v in term.lower())
    if term.islower():
        return jnp.ones(shape, jnp.float32)
    coords = np.stack([rng.integers(0, size, STORED) for size in shape])
    format = "csr" if len(shape) == 2 else "csf"
    return jsparse.SparseTensor.from_coords(coords, np.ones(STORED, np.float32), shape, format)


def _stating(text: str, operands: list[Any]) -> Step:
    def step() -> int:
        forget_everything()
        plan_einsum(text, operands, None)
        return 0

    return step


def _scheduling(text: str, operands: list[Any]) -> Step:
    plans = [nest for work in plan_einsum(text, operands, None).plan.sums for nest in _nests(work)]

    def step() -> int:
        for again in plans:
            again()
        return 0

    return step


def _nests(work: SumOfProducts) -> Iterator[Callable[[], Any]]:
    """Schedule each nest, without cached plans."""
    if isinstance(work.output, AssembledPattern) and work.output.entries is not None:
        every = [term.kernel_dtypes for term in work.terms]
        dtypes = (every[0][0], *(dtype for _, *factors in every for dtype in factors))
        yield partial(entries_plan.function, work.output.entries, dtypes)
        return
    for term in work.terms:
        if term.spec is not None:
            yield partial(make_plan.function, term.spec, term.kernel_dtypes)
