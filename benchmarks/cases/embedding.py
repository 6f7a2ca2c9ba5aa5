"""A training step that looks up few rows of a large embedding table: gradients of rows beside dense gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from harness import Case, NotInstalledError, Step
from peers import import_torch

import jsparse

ROWS, FEATURES, IDS, BATCHES, RATE = 2_000_000, 64, 10_000, 16, 0.1
SAMPLE = 32  # a step returns the new values of this many rows

Loss = Callable[[Any, Any], jax.Array]


def cases() -> list[Case]:
    """Adam and gradient descent, on rows, and Adam on sums of ten rows."""
    return [_case("adam", bags=False), _case("sgd", bags=False), _case("adam", bags=True)]


@functools.cache
def _ids() -> np.ndarray:
    """(batches, ids): each step looks up other rows, so they are in no cache."""
    return np.random.default_rng(5).integers(0, ROWS, (BATCHES, IDS), np.int32)


def _of_rows(table: Any, ids: Any) -> jax.Array:
    return ((table[ids] - 1) ** 2).sum()


def _of_bags(size: int) -> Loss:
    return lambda table, ids: ((jsparse.nn.embedding_bag(table, ids.reshape(-1, size)) - 1) ** 2).sum()


def _stepped(step: Callable[..., Any], init: Callable[..., Any]) -> Step:
    """Steps on one table. Each step is given the memory of the last one, by donation."""
    compiled = jax.jit(step, donate_argnums=(0, 1))
    batches = [jnp.asarray(ids) for ids in _ids()]
    table = jnp.zeros((ROWS, FEATURES)) + 0.5
    carried, number = (table, jax.jit(init)(table)), 0

    def run() -> Any:
        nonlocal carried, number
        *state, sample = compiled(*carried, batches[number % BATCHES])
        carried, number = tuple(state), number + 1
        return np.asarray(jax.block_until_ready((carried, sample))[1])

    return run


def _dense(name: str, loss: Loss) -> Step:
    optax = _optax()
    optimizer = getattr(optax, name)(RATE)

    def step(table: Any, state: Any, ids: Any) -> Any:
        updates, state = optimizer.update(jax.grad(loss)(table, ids), state, table)
        table = optax.apply_updates(table, updates)
        return table, state, table[ids[:SAMPLE]]

    return _stepped(step, optimizer.init)


def _rows(name: str, loss: Loss) -> Step:
    _optax()
    optimizer = getattr(jsparse.optax, f"lazy_{name}")(RATE)

    def step(table: Any, state: Any, ids: Any) -> Any:
        updates, state = optimizer.update(jsparse.grad(loss, rows=True)(table, ids), state, table)
        table = jsparse.optax.apply_updates(table, updates)
        return table, state, table[ids[:SAMPLE]]

    return _stepped(step, optimizer.init)


def _optax() -> Any:
    try:
        import optax
    except ModuleNotFoundError:
        raise NotInstalledError("optax") from None
    return optax


def _torch(name: str, bags: bool) -> Step:
    torch = import_torch()
    table = torch.full((ROWS, FEATURES), 0.5, requires_grad=True)
    optimizer = {"adam": torch.optim.SparseAdam, "sgd": torch.optim.SGD}[name]([table], lr=RATE)
    batches, number = [torch.from_numpy(ids.astype(np.int64)) for ids in _ids()], 0

    def run() -> Any:
        nonlocal number
        ids, number = batches[number % BATCHES], number + 1
        optimizer.zero_grad()
        if bags:
            found = torch.nn.functional.embedding_bag(ids.reshape(-1, 10), table, mode="sum", sparse=True)
        else:
            found = torch.nn.functional.embedding(ids, table, sparse=True)
        ((found - 1) ** 2).sum().backward()
        optimizer.step()
        return table.detach()[ids[:SAMPLE]].numpy()

    return run


def _expected(name: str, bags: bool) -> np.ndarray:
    """The new rows after the first step: all elements of the table are 0.5, and all moments 0."""
    ids = _ids()[0]
    slopes = np.full(len(ids), 2 * (5 - 1 if bags else 0.5 - 1))
    totals = np.zeros(ROWS)
    np.add.at(totals, ids, slopes)
    steps = np.sign(totals) if name == "adam" else totals
    return np.repeat((0.5 - RATE * steps[ids[:SAMPLE], None]).astype(np.float32), FEATURES, 1)


def _case(name: str, bags: bool) -> Case:
    loss = _of_bags(10) if bags else _of_rows
    read = "sums of 10 rows" if bags else "rows"
    candidates = {
        "jsparse": lambda: _rows(name, loss),
        "optax, dense gradient": lambda: _dense(name, loss),
        "optax, dense, bags of one": lambda: _dense(name, _of_bags(1)),
        "torch, sparse=True": lambda: _torch(name, bags),
    }
    if bags:
        del candidates["optax, dense, bags of one"]
    return Case(
        name=f"embedding_{'bags_' if bags else ''}{name}",
        description=f"a step of {name}, table {ROWS:,} x {FEATURES}, {IDS:,} ids, {read}, f32",
        candidates=candidates,
        expected=lambda: _expected(name, bags),
    )
