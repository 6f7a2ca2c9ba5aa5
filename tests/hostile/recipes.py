"""Exported programs whose recipes were edited: whoever can edit a program can compute the keys of its calls anew.

An edited program gives some numbers, or an error. It never accesses memory outside of its buffers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from hostile import kernels
from hostile.corruptions import Case, Rng, garbage, pick
from hostile.kernels import DEPTH, ROWS, TABLE, X, Y
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

import jsparse
from jsparse import JsparseError
from jsparse.compiler.runtime.recipe import digest

ATTRIBUTE = re.compile(r'(bound|carried|key|recipe) = "([^"]*)"')  # in this order; not all calls have `carried`
NUMBERS = (0, 1, -1, 2, 3, 64, 65, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, -(2**62), 1.5)
WORDS = (
    *("dense", "compressed", "singleton", "range", "int8", "int32", "int64", "uint32", "bool", "float16", "float32"),
    *("float64", "complex64", "compute", "count", "write", "none", "columns", "levels", "i", "j", "k", "P0", "starts"),
)


WRITTEN_OUT = jsparse.Schedule.parse("reorder k i j n\nspecialize pattern P0\nunroll k\nunroll i\nunroll j")


def _dynamic(format: str, order: int = 2) -> Any:
    return kernels.dynamic(format, 3, order)


def _static(format: str, order: int = 2) -> Any:
    return jsparse.asarray(kernels.matrix(5, order), format)


def _batch(A: Any) -> Any:
    stacked = jax.tree.map(lambda x: jnp.stack([x, x]), A)
    return jax.vmap(lambda A: A @ X)(stacked)


def _programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    csr, other, solid, coupling = (
        _static("csr"),
        jsparse.asarray(kernels.matrix(8)),
        _static("csf", 3),
        jsparse.asarray((np.arange(27).reshape(3, 3, 3) % 5 == 1).astype(np.float32), "csf"),
    )
    band, ones = jsparse.pattern.window(ROWS, 2), jnp.ones
    full, attended = jnp.asarray(kernels.matrix(4)), jnp.ones((ROWS, 4))

    def loss(v: Any, x: Any) -> Any:
        return jnp.abs(csr.with_values(v) @ x).sum()

    return {
        "product": (lambda v, x: csr.with_values(v) @ x, (csr.values, X)),
        "gradients": (jax.grad(loss, (0, 1)), (csr.values, X)),
        "solid": (
            lambda v, x, z: jsparse.einsum("ijk,jr,kr->ir", solid.with_values(v), x, z),
            (solid.values, X, ones((DEPTH, 3))),
        ),
        "dynamic product": (lambda A, x: (A @ x, A.T @ Y), (_dynamic("csr"), X)),
        "coo product": (lambda A, x: A @ x, (_dynamic("coo"), X)),
        "dynamic blocks": (lambda A, x: A @ x, (_dynamic("(i, j) -> (i : compressed, j : dense)"), X)),
        "sampled": (lambda x, y: jsparse.einsum("ik,jk->ij", y, x, out_format=csr).values, (X, Y)),
        "sum": (lambda A, B: jsparse.add(A, B, nse=40), (_dynamic("csr"), _dynamic("csc"))),
        "static sum": (lambda v, w: (csr.with_values(v) + other.with_values(w)).values, (csr.values, other.values)),
        "sparse product": (
            lambda A, v: jsparse.einsum("ij,kj->ik", A, csr.with_values(v), nse=50),
            (_dynamic("csr"), csr.values),
        ),
        "unsorted product": (
            lambda A, B: jsparse.einsum("ij,ik->jk", A, B, nse=50),
            (_dynamic("csr"), _dynamic("coo")),
        ),
        "attention": (lambda q: jsparse.sparse_attention(q, q, q, band), (attended,)),
        "edge softmax": (kernels._edge_softmax, (_dynamic("csr"),)),
        "gathered": (
            lambda v, x, r: jsparse.evaluate("y[p,k] = A[r[p],j] * X[j,k]", A=csr.with_values(v), X=x, r=r),
            (csr.values, X, TABLE),
        ),
        "scattered": (lambda x, t: jsparse.evaluate("y[t[p],k] += x[p,k]", t=t, x=x, shape=(ROWS, 3)), (Y[:5], TABLE)),
        "largest": (jax.grad(lambda v: csr.with_values(v).max(1).sum()), (csr.values,)),
        "batch": (_batch, (_dynamic("csr"),)),
        "conversions": (lambda A: (A.asformat("csc"), A.todense(), A.prune(keep=4)), (_dynamic("coo"),)),
        "from dense": (lambda x: jsparse.asarray(x, "csr", dynamic=True, nse=20), (full,)),
        "coupling": (
            lambda v, x: jsparse.einsum("ijk,in,jn->kn", coupling.with_values(v), x, x, schedule=WRITTEN_OUT),
            (coupling.values, ones((3, 8))),
        ),
        "band": (lambda x: jsparse.einsum("ij,jk->ik", band, x), (attended,)),
    }


@dataclass(frozen=True)
class Exported:
    """An exported program with operands; `text` is its module."""

    exported: Any
    operands: tuple[Any, ...]
    text: str

    @property
    def calls(self) -> list[dict[str, str]]:
        """The attributes of each call."""
        found = list[dict[str, str]]()
        for name, value in ATTRIBUTE.findall(self.text):
            if name == "bound":
                found.append({})
            found[-1][name] = _unescaped(value)
        return found

    def with_calls(self, calls: list[dict[str, str]]) -> Any:
        """The program with other attributes, under the keys that belong to them."""
        written = iter([call for call, own in zip(calls, self.calls, strict=True) for _ in own])

        def attribute(match: re.Match[str]) -> str:
            call = next(written)
            value = digest(call["recipe"], call["bound"]) if match[1] == "key" else call[match[1]]
            return f'{match[1]} = "{_escaped(value)}"'

        text = ATTRIBUTE.sub(attribute, self.text)
        with ir.Context():
            data = stablehlo.serialize_portable_artifact_str(text, stablehlo.get_current_version())
        return replace(self.exported, mlir_module_serialized=data)

    def run(self, calls: list[dict[str, str]], operands: Any) -> None:
        """Run the program with other recipes and names on some operands. Raises JsparseError for an error of ours."""
        try:
            jax.block_until_ready(jax.tree.leaves(self.with_calls(calls).call(*operands)))
        except jax.errors.JaxRuntimeError as error:
            if "jsparse: " not in str(error):
                raise
            raise JsparseError(str(error)) from error


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), text).replace("\\\\", "\\")


def _escaped(text: str) -> str:
    return "".join(
        c if c.isascii() and c.isprintable() and c not in '"\\' else "".join(f"\\{b:02X}" for b in c.encode())
        for c in text
    )


@lru_cache
def program(name: str) -> Exported:
    """The exported program of that name."""
    function, operands = PROGRAMS[name]
    exported = jsparse.export(jax.jit(function))(*operands)
    return Exported(exported, operands, exported.mlir_module())


PROGRAMS = _programs()


# ---- Edits.


def _nested(value: Any) -> Any:
    """The value with recipes inside of it, which are text, as lists and dictionaries."""
    if isinstance(value, str) and value[:1] in ("{", "[") and len(value) > 2:
        try:
            return _Text(_nested(json.loads(value)))
        except ValueError:
            return value
    if isinstance(value, list):
        return [_nested(x) for x in value]
    return {k: _nested(x) for k, x in value.items()} if isinstance(value, dict) else value


class _Text(list):  # type: ignore[type-arg]
    """A recipe inside of another one: a list of one value."""

    def __init__(self, value: Any) -> None:
        super().__init__([value])


def _flat(value: Any) -> Any:
    if isinstance(value, _Text):
        return json.dumps(_flat(value[0]), separators=(",", ":"))
    if isinstance(value, list):
        return [_flat(x) for x in value]
    return {k: _flat(x) for k, x in value.items()} if isinstance(value, dict) else value


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values inside of a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _changed(rng: Rng, value: Any, words: list[str]) -> Any:
    """Another value in the place of one, of the same type in most cases; `words` are those that the recipe has."""
    match value:
        case bool():
            return not value
        case int() | float():
            return pick(rng, (*NUMBERS, value + 1, value - 1, value * 2, -value))
        case str() if " " in value and rng.random() < 0.8:  # a line of a schedule
            own = value.split()
            at = int(rng.integers(len(own)))
            own[at] = str(_changed(rng, int(own[at]) if own[at].isdigit() else own[at], [*words, *own]))
            return " ".join(own)
        case str():
            return pick(rng, words if rng.random() < 0.7 else WORDS)
        case list() if len(value) and type(value) is list:
            found, n, m = list(value), int(rng.integers(len(value))), int(rng.integers(len(value)))
            match int(rng.integers(4)):
                case 0:
                    del found[n]
                case 1:
                    found.insert(m, found[n])
                case 2:
                    found[n], found[m] = found[m], found[n]
                case 3:
                    found[n] = found[m]
            return found
        case _:
            return pick(rng, (None, [], 0, [[0, 1]], True))


def _edited(rng: Rng, recipe: str, others: list[str]) -> str:
    """A recipe with one value changed, or with a value of another recipe in the same place; or with another byte."""
    if rng.random() < 0.05:
        at = int(rng.integers(len(recipe)))
        return recipe[:at] + chr(32 + int(rng.integers(95))) + recipe[at + 1 :]
    value = [_nested(json.loads(recipe))]
    if rng.random() < 0.03 and isinstance(value[0], dict):
        value[0]["backend"] = "interpret"
    paths = list(_places(value))
    words = [x for x in (_at(value, path) for path in paths) if isinstance(x, str)]
    depth = pick(rng, sorted({len(path) for path in paths}))  # most values are deep inside
    path = pick(rng, [path for path in paths if len(path) == depth])
    old, found = _at(value, path), None
    if rng.random() < 0.2:
        donor = [_nested(json.loads(pick(rng, others)))]
        same = [p for p in _places(donor) if p[-1] == path[-1] and type(_at(donor, p)) is type(old)]
        found = _at(donor, pick(rng, same)) if same else None
    found = _changed(rng, old, words) if found is None else found
    everywhere = not isinstance(old, list | dict) and rng.random() < 0.2
    for at in [p for p in paths if _at(value, p) == old] if everywhere else [path]:
        here = _at(value, at[:-1])
        if rng.random() < 0.02 and isinstance(here, dict):
            del here[at[-1]]
        else:
            here[at[-1]] = found
    return json.dumps(_flat(value[0]), separators=(",", ":"))


def _other_names(rng: Rng, bound: str, every: list[str]) -> str:
    names = bound.split()
    if not names or rng.random() < 0.2:
        names.insert(int(rng.integers(len(names) + 1)), pick(rng, [*every, "-", "!"]))
        return " ".join(names)
    at = int(rng.integers(len(names)))
    match int(rng.integers(5)):
        case 0:
            del names[at]
        case 1:
            names[at] = pick(rng, [*every, "-", "!"])
        case 2:
            names[at] = re.sub(r"\w+$", lambda _: pick(rng, ("0", "1", "2", "gather", "scatter")), names[at])
        case 3:
            other = int(rng.integers(len(names)))
            names[at], names[other] = names[other], names[at]
        case 4:
            names[at] = re.sub(
                r"(/\w+)$", lambda end: pick(rng, ("@d0c1", "@d1c0", "@c0c1", "@n0s1")) + end[1], names[at]
            )
    return " ".join(names)


def _other_patterns(rng: Rng, carried: str, every: list[str]) -> str:
    """The patterns that a program says it carries, with another number, pattern or digest, or without one of them."""
    words = carried.split()
    at = int(rng.integers(len(words)))
    match int(rng.integers(4)):
        case 0:
            words[0] = str(pick(rng, NUMBERS))
        case 1:
            words[at] = pick(rng, every)
        case 2:
            words[at] = re.sub(r"[0-9]", lambda digit: pick(rng, (digit[0], "0", "1", "9")), words[at])
        case 3:
            del words[at]
    return " ".join(words)


@lru_cache
def _every_pattern() -> list[str]:
    return sorted({word for p in PROGRAMS for call in program(p).calls for word in call.get("carried", "").split()})


@lru_cache
def _every_name() -> list[str]:
    return sorted(
        {name for p in PROGRAMS for call in program(p).calls for name in call["bound"].split() if len(name) > 1}
    )


def edited(seed: int, number: int) -> Case:
    """A program whose recipes were edited. Index arrays that are operands may hold garbage, too."""
    rng = np.random.default_rng((seed, number))
    name = list(PROGRAMS)[number % len(PROGRAMS)]
    made = program(name)
    calls = [dict(call) for call in made.calls]
    for _ in range(pick(rng, (1, 1, 1, 2, 3))):
        call = pick(rng, calls)
        try:
            if call.get("carried") and rng.random() < 0.15:
                call["carried"] = _other_patterns(rng, call["carried"], _every_pattern())
            elif rng.random() < 0.15:
                call["bound"] = _other_names(rng, call["bound"], _every_name())
            else:
                others = program(pick(rng, list(PROGRAMS))).calls if rng.random() < 0.5 else made.calls
                call["recipe"] = _edited(rng, call["recipe"], [other["recipe"] for other in others])
        except ValueError:  # a byte made it no JSON
            break
    operands = made.operands
    if rng.random() < 0.5:
        operands = jax.tree.map(lambda x: garbage(rng, np.asarray(x)) if x.dtype == np.int32 else x, operands)

    changed = [(c, d) for c, d in zip(calls, made.calls, strict=True) if c != d]
    return Case(f"{name} with {changed}", lambda: made.run(calls, operands))
