"""An interpreter of KernelIR on numpy arrays, statement by statement.

Tests compare machine code with the interpreter. A backend uses the interpreter, too (`compiler.backends.interpret`).
Scalar integers are Python's, wrapped to the range of their type after each operation; other scalars are numpy's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel import nodes as ir
from jsparse.compiler.operations import meaning_of

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": lambda left, right: min(left, right) if type(left) is type(right) is int else np.minimum(left, right),
    "max": lambda left, right: max(left, right) if type(left) is type(right) is int else np.maximum(left, right),
    "&": operator.and_,
    "|": operator.or_,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


RunChunks: TypeAlias = Callable[[int, Callable[[int], None]], None]
"""The type of a parallel loop, `run_chunks(count, body)`: it calls `body(n)` for each `n` below `count`."""


def execute(
    kernel: Kernel,
    flat: Mapping[str, NDArray[Any]],
    shapes: Mapping[str, Sequence[int]],
    threads: int,
    run_chunks: RunChunks,
) -> None:
    """Execute `kernel` on its buffers. `flat` maps the name of each buffer to its memory, and `shapes` to its shape.
    `run_chunks(count, body)` runs a parallel loop: it calls `body(n)` for one chunk n at a time."""
    with np.errstate(all="ignore"):
        _Machine(dict(flat), shapes, threads, run_chunks).run(kernel.body, {})


def _is_float(type_: Type) -> bool:
    return type_.is_float or type_.is_narrow_float


def _fold_lanes(value: NDArray[Any], op: str, lanes: int) -> NDArray[Any]:
    """Reduce a vector to `lanes` lanes: split it into pieces of 2ⁿ lanes, fold each piece, and combine the pieces."""
    total = None
    while len(value):
        length = 1 << (len(value).bit_length() - 1)
        part, value = value[:length], value[length:]
        while len(part) > lanes:
            part = _OPERATORS[op](*np.split(part, 2))
        total = part if total is None else _OPERATORS[op](total, part)
    assert total is not None
    return total


def _wrap_integer(result: Any, type_: Type) -> Any:
    """Wrap a Python integer to the range of an integer type, in two's complement if the type is signed."""
    if type(result) is not int:
        return result
    least, count = _RANGES[type_.dtype]
    return result if 0 <= result - least < count else (result - least) % count + least


_RANGES = {  # the smallest number of an integer type, and how many numbers it has
    f"{kind}{bits}": (-(1 << (bits - 1)) if kind == "int" else 0, 1 << bits)
    for kind in ("int", "uint")
    for bits in (8, 16, 32, 64)
}


class _Machine:
    def __init__(
        self, flat: dict[str, NDArray[Any]], shapes: Mapping[str, Sequence[int]], threads: int, run_chunks: RunChunks
    ) -> None:
        self.flat, self.shapes, self.threads, self.run_chunks = flat, shapes, threads, run_chunks

    def run(self, stmt: ir.Stmt, env: dict[str, Any]) -> None:
        match stmt:
            case ir.Block(stmts=stmts):
                for inner in stmts:
                    self.run(inner, env)
            case ir.Bind(var=var, value=value) | ir.Declare(var=var, value=value) | ir.Set(var=var, value=value):
                env[var.name] = self.value(value, env)
            case ir.Store():
                self.store(stmt, env)
            case ir.For(var=var, start=start, stop=stop, step=step, body=body):
                for n in range(self.value(start, env), self.value(stop, env), step):
                    env[var.name] = n
                    self.run(body, env)
            case ir.Filter():
                self.filter(stmt, env)
            case ir.While(condition=condition, body=body):
                while self.value(condition, env):
                    self.run(body, env)
            case ir.If(condition=condition, then=then, otherwise=otherwise):
                chosen = then if self.value(condition, env) else otherwise
                if chosen is not None:
                    self.run(chosen, env)
            case ir.ParallelFor(var=var, count=count, body=body):
                self.run_chunks(self.value(count, env), lambda n: self.run(body, env | {var.name: n}))
            case ir.LocalArray(buffer=buffer, length=length):
                self.flat[buffer.name] = np.full(length, 77, buffer.type.dtype)
            case ir.Borrow(buffer=buffer, length=length, body=body):
                content = 0 if stmt.zeros else 77
                self.flat[buffer.name] = np.full(self.value(length, env), content, buffer.type.dtype)
                self.run(body, env)
                if stmt.stays_empty and self.flat[buffer.name].any():
                    raise ValueError(f"{buffer.name} is not empty at the end")
                del self.flat[buffer.name]
            case ir.PrefetchLines():
                pass

    def store(self, stmt: ir.Store, env: dict[str, Any]) -> None:
        value, where = self.value(stmt.value, env), self.location(stmt.buffer, stmt.index, stmt.value.type.lanes, env)
        flat = self.flat[stmt.buffer.name]
        flat[where] = _OPERATORS[stmt.op](flat[where], value) if stmt.accumulate else value

    def filter(self, stmt: ir.Filter, env: dict[str, Any]) -> None:
        start, stop, count = self.value(stmt.start, env), self.value(stmt.stop, env), env[stmt.count.name]
        self.check_bounds(stmt.found, count, max(stop - start, 0) + ir.FILTER_LANES)
        for n in range(start, stop):
            if self.value(stmt.mark, env | {stmt.var.name: n}):
                self.flat[stmt.found.name][count] = n - start
                count += 1
        env[stmt.count.name] = count

    def location(self, buffer: ir.Buffer, index: ir.Expr, lanes: int, env: dict[str, Any]) -> slice | int:
        start = self.check_bounds(buffer, int(self.value(index, env)), max(lanes, 1))
        return slice(start, start + lanes) if lanes else start

    def check_bounds(self, buffer: ir.Buffer, start: int, length: int = 1) -> int:
        """Return `start`. Raises IndexError if the buffer has fewer than `length` elements from `start` on."""
        if not 0 <= start <= self.flat[buffer.name].size - length:
            raise IndexError(f"{buffer.name}[{start} : {length}] of {self.flat[buffer.name].size}")
        return start

    def value(self, expr: ir.Expr, env: dict[str, Any]) -> Any:
        match expr:
            case ir.Const(value=number, type=type_):
                if not type_.is_float:
                    number = bool(number) if type_.dtype == "bool" else _wrap_integer(int(number), type_)
                if type_.lanes:
                    return np.full(type_.lanes, number, type_.dtype)
                return np.dtype(type_.dtype).type(number) if type_.is_float else number
            case ir.Var(name=name):
                return env[name]
            case ir.Binary(op=op, left=left, right=right):
                return _wrap_integer(_OPERATORS[op](self.value(left, env), self.value(right, env)), left.type)
            case ir.Compare(op=op, left=left, right=right):
                return _OPERATORS[op](self.value(left, env), self.value(right, env))
            case ir.LowestBit(value=value):
                bits = self.value(value, env)
                return (bits & -bits).bit_length() - 1
            case ir.Select(condition=condition, then=then, otherwise=otherwise):
                chosen, one, other = (self.value(x, env) for x in (condition, then, otherwise))
                return np.where(chosen, one, other) if condition.type.lanes else one if chosen else other
            case ir.Call(function=function, arguments=arguments):
                result = meaning_of(function)(*(self.value(x, env) for x in arguments))
                return result if expr.type.lanes or _is_float(expr.type) else _wrap_integer(result.item(), expr.type)
            case ir.Load(buffer=buffer, index=index, lanes=lanes):
                loaded = self.flat[buffer.name][self.location(buffer, index, lanes, env)]
                return loaded.copy() if lanes else loaded if _is_float(buffer.type) else loaded.item()
            case ir.Cast(value=value, dtype=dtype):
                with np.errstate(over="ignore"):
                    cast = np.asarray(self.value(value, env)).astype(dtype)
                return cast if cast.ndim else cast[()] if _is_float(expr.type) else cast.item()
            case ir.Extent(buffer=buffer, axis=axis):
                return self.shapes[buffer.name][axis]
            case ir.Threads():
                return self.threads
            case _:
                return self.lanes(expr, env)

    def lanes(self, expr: ir.Expr, env: dict[str, Any]) -> Any:
        """Evaluate an expression that makes a vector, or reduces one."""
        match expr:
            case ir.Gather(buffer=buffer, index=index):
                return np.stack([self.flat[buffer.name][self.check_bounds(buffer, n)] for n in self.value(index, env)])
            case ir.Ramp(first=first, lanes=lanes):
                return self.value(first, env) + np.arange(lanes)
            case ir.Splat(value=value, lanes=lanes):
                return np.full(lanes, self.value(value, env), expr.type.dtype)
            case ir.WidenLanes(value=value, lanes=lanes, fill=fill):
                narrow = self.value(value, env)
                return np.concatenate([narrow, np.full(lanes - len(narrow), fill, narrow.dtype)])
            case ir.HorizontalReduce(value=value, op=op, lanes=lanes):
                folded = _fold_lanes(self.value(value, env), op, max(lanes, 1))
                return folded if lanes else folded[0] if _is_float(expr.type) else folded[0].item()
            case ir.BuildVector(values=values):
                return np.array([self.value(value, env) for value in values], expr.type.dtype)
