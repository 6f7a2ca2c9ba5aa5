"""How long it takes to decide: formats and steps are stated, loop orders are priced, for 2 to 6 operands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from harness import Case, Step

import jsparse
from jsparse.planning import contraction as statements
from jsparse.planning.contraction import Contraction
from jsparse.primitives.entries_spec import entries_plan
from jsparse.primitives.execute import make_plan

SIZES = dict(zip("ijklmr", (300, 400, 200, 100, 50, 16), strict=True))
STORED = 3_000

# the accesses in capitals are of sparse operands
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
    """One table of each."""
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
        statements.clear_cache()
        statements.contraction(text, operands, None)
        return 0

    return step


def _scheduling(text: str, operands: list[Any]) -> Step:
    parts = [part for part in jsparse.explain(text, *operands).parts if part.plan is not None]
    plans = [_plan_of(part.work) for part in parts]

    def step() -> int:
        for again in plans:
            again()
        return 0

    return step


def _plan_of(work: Contraction) -> Callable[[], Any]:
    """Schedules a nest, without the plans that are remembered."""
    if work.entries is not None:
        return partial(entries_plan.__wrapped__, work.entries, work.kernel_dtypes)
    assert work.spec is not None
    return partial(make_plan.__wrapped__, work.spec, work.kernel_dtypes)
