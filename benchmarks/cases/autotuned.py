"""What `jsparse.autotune` finds, beside the scheduler's choice, on the workloads that the field measures.

The candidates are the operands as given, with the scheduler's schedules, then with the schedules that were kept, and
the operands in the formats that were best, with the schedules that were kept for these.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from graphs import uniform
from harness import Case, Step
from matrices import ZOO

import jsparse
from jsparse import SparseTensor
from jsparse.ops.autotune import Tuned

from ._data import dense, rmat_graph, windowed

BUDGET = "6s"

Operands = tuple[Any, ...]


def cases() -> list[Case]:
    """One case for each workload."""
    return [_case(name, text, make) for name, (text, make) in WORKLOADS.items()]


def _on(pattern: Any) -> SparseTensor:
    return SparseTensor(jnp.asarray(dense(pattern.nse)), pattern)


def _graph(*shapes: tuple[int, ...]) -> Operands:
    return jsparse.asarray(rmat_graph(), format="csr"), *(dense(*shape) for shape in shapes)


def _layer(outputs: int, inputs: int, zeros: float) -> Operands:
    weights = uniform((outputs, inputs), round((1 - zeros) * outputs * inputs))
    return dense(256, inputs), jsparse.asarray(weights, format="csr")


def _of_zoo(name: str, width: int) -> Operands:
    matrix = jsparse.asarray(ZOO[name](), format="csr")
    return matrix, dense(matrix.shape[1], width)


def _random_tensor(shape: tuple[int, ...], entries: int, format: str) -> SparseTensor:
    places = np.sort(np.random.default_rng(0).choice(np.prod(shape), entries, replace=False))
    coords = np.array(np.unravel_index(places, shape))
    return SparseTensor.from_coords(coords, dense(entries), shape, format=format)


NODES, LENGTH = 169_343, 4_096

WORKLOADS: Mapping[str, tuple[str, Callable[[], Operands]]] = {
    "graph, 1 column": ("ij,j->i", lambda: _graph((NODES,))),
    "graph, 40 columns": ("ij,jk->ik", lambda: _graph((NODES, 40))),
    "graph, 128 columns": ("ij,jk->ik", lambda: _graph((NODES, 128))),
    "graph transposed, 40 columns": ("ij,ik->jk", lambda: _graph((NODES, 40))),
    "autoencoder layer, 80 % zeros": ("bi,oi->bo", lambda: _layer(1_024, 2_048, 0.8)),
    "autoencoder layer, 95 % zeros": ("bi,oi->bo", lambda: _layer(1_024, 2_048, 0.95)),
    "autoencoder layer, 99 % zeros": ("bi,oi->bo", lambda: _layer(1_024, 2_048, 0.99)),
    "attention scores": ("qd,kd,qk->qk", lambda: (dense(LENGTH, 32), dense(LENGTH, 32, seed=2), _on(windowed(LENGTH)))),
    "attention values": ("qk,kd->qd", lambda: (_on(windowed(LENGTH)), dense(LENGTH, 32))),
    "MTTKRP, csf": (
        "ijk,jr,kr->ir",
        lambda: (_random_tensor((500, 1_000, 1_500), 250_000, "csf"), dense(1_000, 16), dense(1_500, 16)),
    ),
    "MTTKRP, coo": (
        "ijk,jr,kr->ir",
        lambda: (_random_tensor((500, 1_000, 1_500), 250_000, "coo"), dense(1_000, 16), dense(1_500, 16)),
    ),
    "sparse network layer": (
        "bi,ij->bj",
        lambda: (dense(2_048, 1_024), jsparse.asarray(uniform((1_024, 1_024), 32_768))),
    ),
    "blocks, 32 columns": ("ij,jk->ik", lambda: _of_zoo("blocks8", 32)),
    "power law, 32 columns": ("ij,jk->ik", lambda: _of_zoo("heavy_rows", 32)),
    "coupling tensor": (
        "ijk,bi,bj->bk",
        lambda: (_random_tensor((25, 25, 25), 3_741, "csf"), dense(4_096, 25), dense(4_096, 25, seed=2)),
    ),
}


def _case(name: str, text: str, make: Callable[[], Operands]) -> Case:
    made = functools.cache(lambda: tuple(x if isinstance(x, SparseTensor) else jnp.asarray(x) for x in make()))
    tuned = functools.cache(lambda: _tuned(text, made()))
    return Case(
        name=f"autotuned {name}",
        description=f"{text}, {name}, by default and after jsparse.autotune with {BUDGET}",
        candidates={
            "default": lambda: _step(text, made(), "off"),
            "tuned schedules": lambda: (tuned(), _step(text, made(), "use"))[1],
            "tuned formats and schedules": lambda: _step(text, _converted(tuned(), made()), "use"),
        },
        expected=lambda: _step(text, made(), "off")(),
    )


def _tuned(text: str, operands: Operands) -> Tuned:
    if jsparse.config.cache_dir is None:
        jsparse.config.cache_dir = tempfile.mkdtemp()
    tuned = jsparse.autotune(text, *operands, budget=BUDGET, out_format=_out_format(text))
    print(tuned, flush=True)
    return tuned


def _converted(tuned: Tuned, operands: Operands) -> Operands:
    formats = iter(tuned.formats.values())
    return tuple(_in_format(x, next(formats)) if isinstance(x, SparseTensor) else x for x in operands)


def _in_format(x: SparseTensor, format: str) -> SparseTensor:
    if "+" not in format:
        return x.asformat(format)
    return next(one for one in jsparse.choose_format(x).considered if one.name == format).convert(x)


def _step(text: str, operands: Operands, autotune: str) -> Step:
    def run(*given: Any) -> Any:
        out = jsparse.einsum(text, *given, out_format=_out_format(text))
        return out.values if isinstance(out, SparseTensor) else out

    with jsparse.config(autotune=autotune):
        program = jax.jit(run).lower(*operands).compile()
    return lambda: jax.block_until_ready(program(*operands))


def _out_format(text: str) -> str:
    """The format of the result: the given format of the sparse operand if it has the same indices, else dense."""
    terms, result = text.split("->")
    return "csr" if result in terms.split(",") else "dense"
