"""Edits of recipes that would make a kernel access memory outside of its buffers. Each one has to be refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hostile import recipes
from hostile.corruptions import Case
from hostile.kernels import ROWS

import jsparse

Calls = list[dict[str, str]]
FAR = 2**20  # an index or a size that no buffer has


def _recipe(change: Callable[[Any], None]) -> Callable[[Calls], None]:
    """The edit of the last call that changes what its recipe states."""

    def edit(calls: Calls) -> None:
        stated = json.loads(calls[-1]["recipe"])
        change(stated)
        calls[-1]["recipe"] = json.dumps(stated, separators=(",", ":"))

    return edit


def _field(name: str, value: Any) -> Callable[[Calls], None]:
    """The edit that changes one field of a kernel's recipe."""

    def change(stated: Any) -> None:
        stated[name] = value(stated[name]) if callable(value) else value

    return _recipe(change)


def _static(calls: Calls) -> None:
    """Index arrays that are operands are called static, so that kernels trust them."""
    for call in calls:
        call["recipe"] = call["recipe"].replace('"int32",true,', '"int32",false,')


def _wider(calls: Calls) -> None:
    """Another pattern is bound, with as many rows and entries, but more columns than the dense operand has rows."""
    wide = WIDE.pattern
    for call in calls:
        call["bound"] = " ".join(f"{wide.digest}/{n}" for n in range(len(wide.arrays)))


def _repeated(tensors: Any) -> Any:
    """The axes of a dense operand are the same one twice."""
    return [[name, dtype, [axes[0]] * len(axes) if name == "B" else axes] for name, dtype, axes in tensors]


def _constants(patterns: Any) -> Any:
    (levels, dtype, dynamic, batch, constants, capacities), *rest = patterns
    changed = [[FAR if n else n for n in array] for array in constants]
    return [[levels, dtype, dynamic, batch, changed, capacities], *rest]


def _assembly(change: Callable[[list[Any]], None]) -> Callable[[Calls], None]:
    """The edit of the call that assembles a pattern: version, parameters, terms, operands, results, ordered, factors,
    bytes of values."""

    def edit(calls: Calls) -> None:
        for call in calls:
            if call["recipe"].startswith('["lists"'):
                stated = json.loads(call["recipe"])
                change(stated)
                call["recipe"] = json.dumps(stated, separators=(",", ":"))

    return edit


def _item(at: int, value: Any) -> Callable[[list[Any]], None]:
    def change(stated: list[Any]) -> None:
        stated[at] = value(stated[at]) if callable(value) else value

    return change


def _less_counted(terms: Any) -> Any:
    """Terms that count by a kernel over a matrix with one row, and write by one over all rows."""
    return [[counts.replace(f'["i0",{ROWS}]', '["i0",1]'), columns, widths] for counts, columns, widths in terms]


def _wide(params: Any) -> Any:
    """Parameters of a pattern with index arrays of int64, although kernels write int32."""
    return [params[0], params[1] | 1, *params[2:]]


def _with_names(change: Callable[[list[str]], list[str]]) -> Callable[[Calls], None]:
    def edit(calls: Calls) -> None:
        for call in calls:
            call["bound"] = " ".join(change(call["bound"].split()))

    return edit


# ---- Both have the same numbers of rows and entries.
WIDE = jsparse.SparseTensor.from_coords([[*range(8), 0], [*range(8), FAR - 1]], np.ones(9, np.float32), (8, FAR), "csr")
NARROW = jsparse.SparseTensor.from_coords([[*range(8), 0], [*range(8), 9]], np.ones(9, np.float32), (8, 10), "csr")

ATTACKS: dict[str, tuple[str, Callable[[Calls], None]]] = {
    "a dynamic pattern is static": ("dynamic product", _static),
    "a dynamic pattern is static, in a chain": ("edge softmax", _static),
    "a dynamic pattern is static, in an assembly": ("unsorted product", _static),
    "another pattern is bound": ("narrow", _wider),
    "a size is unknown": ("narrow", _field("sizes", lambda sizes: [[v, None if n == 10 else n] for v, n in sizes])),
    "another size": ("narrow", _field("sizes", lambda sizes: [[v, 3 if n == 8 else n] for v, n in sizes])),
    "names are left out": ("product", _with_names(lambda names: names[1:])),
    "names are operands": ("product", _with_names(lambda names: ["-", *names[1:]])),
    "names are repeated": ("solid", _with_names(lambda names: [names[0], names[1], names[1], *names[3:]])),
    "axes are repeated": ("product", _field("tensors", _repeated)),
    "constants are far": ("coupling", _field("patterns", _constants)),
    "the output is another": ("product", _field("output", ["write", "columns", False])),
    "values in an order": ("product", _field("ordered", True)),
    "an assembly is ordered": ("unsorted product", _assembly(_item(6, True))),
    "an assembly is not ordered": ("sum", _assembly(_item(6, False))),
    "less is counted": ("sum", _assembly(_item(3, _less_counted))),
    "no terms": ("sum", _assembly(_item(3, []))),
    "terms twice": ("sum", _assembly(_item(3, lambda terms: terms * 2))),
    "wide index arrays": ("unsorted product", _assembly(_item(2, _wide))),
    "wide values": ("sum", _assembly(_item(8, 8))),
    "a temporary of more than 64 bits": ("edge softmax", _field("sizes", lambda s: [[v, 2**61] for v, _ in s])),
}


def attack(seed: int, number: int) -> Case:
    """One of the attacks, on index arrays with numbers that are far outside of every buffer."""
    del seed
    name = list(ATTACKS)[number]
    of, edit = ATTACKS[name]
    made = recipes.program(of)
    calls = [dict(call) for call in made.calls]
    edit(calls)
    assert calls != made.calls, name
    far = lambda x: jnp.arange(1, x.size + 1, dtype=x.dtype) * FAR if x.dtype == np.int32 else x  # noqa: E731
    operands = jax.tree.map(far, made.operands)
    return Case(name, lambda: made.run(calls, operands), must_fail=True)


recipes.PROGRAMS["narrow"] = (lambda v, x: NARROW.with_values(v) @ x, (NARROW.values, jnp.ones((10, 3))))
