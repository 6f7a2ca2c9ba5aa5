"""An interpreter of KernelIR on numpy arrays, statement by statement: the tests' reference for code generation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jsparse.compiler.kernel.kernel import Kernel
from jsparse.compiler.kernel.nodes import (
    Binary,
    Block,
    Borrow,
    Buffer,
    Cast,
    Compare,
    Const,
    Declare,
    Expr,
    Extent,
    For,
    HorizontalReduce,
    If,
    Let,
    Load,
    LocalArray,
    LowestBit,
    Parallel,
    Prefetch,
    Select,
    Set,
    Splat,
    Stmt,
    Store,
    Threads,
    Var,
    While,
    Widen,
)
from jsparse.compiler.kernel.types import Type

__all__ = ["interpret_kernel"]

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": np.minimum,
    "max": np.maximum,
    "&": operator.and_,
    "|": operator.or_,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


MANY = 1 << 10  # the number of threads that kernels see


def interpret_kernel(kernel: Kernel, buffers: Sequence[NDArray[Any]], reverse: bool = False) -> None:
    """Execute `kernel` on arrays in the order of its buffers; written ones change in place.

    Every load and store is checked against the array's size. `reverse` runs parallel chunks last to first, with one
    thread instead of many: a result that depends on either is a defect of the kernel.
    """
    flat = {b.name: np.ascontiguousarray(a).reshape(-1) for b, a in zip(kernel.buffers, buffers, strict=True)}
    shapes = {b.name: a.shape for b, a in zip(kernel.buffers, buffers, strict=True)}
    for buffer, array in zip(kernel.buffers, buffers, strict=True):
        if buffer.written and not np.shares_memory(flat[buffer.name], array) and array.size:
            raise ValueError(f"written buffer {buffer.name} must be contiguous")
    _Machine(flat, shapes, reverse).run(kernel.body, {})


def _is_float(type_: Type) -> bool:
    return type_.is_float or type_.is_narrow_float


def _wrapped(result: Any) -> Any:
    """An integer modulo 2⁶⁴, in two's complement."""
    return (result + 2**63) % 2**64 - 2**63 if type(result) is int else result


class _Machine:
    def __init__(self, flat: dict[str, NDArray[Any]], shapes: dict[str, tuple[int, ...]], reverse: bool) -> None:
        self.flat, self.shapes, self.reverse = flat, shapes, reverse

    def run(self, stmt: Stmt, env: dict[str, Any]) -> None:
        match stmt:
            case Block(stmts=stmts):
                for inner in stmts:
                    self.run(inner, env)
            case Let(var=var, value=value) | Declare(var=var, value=value) | Set(var=var, value=value):
                env[var.name] = self.value(value, env)
            case Store():
                self.store(stmt, env)
            case For(var=var, start=start, stop=stop, step=step, body=body):
                for n in range(self.value(start, env), self.value(stop, env), step):
                    env[var.name] = n
                    self.run(body, env)
            case While(condition=condition, body=body):
                while self.value(condition, env):
                    self.run(body, env)
            case If(condition=condition, then=then, otherwise=otherwise):
                chosen = then if self.value(condition, env) else otherwise
                if chosen is not None:
                    self.run(chosen, env)
            case Parallel(var=var, count=count, body=body):
                chunks = range(self.value(count, env))
                for n in reversed(chunks) if self.reverse else chunks:
                    self.run(body, env | {var.name: n})
            case LocalArray(buffer=buffer, length=length):
                self.flat[buffer.name] = np.full(length, -77, buffer.type.dtype)
            case Borrow(buffer=buffer, length=length, body=body):
                self.flat[buffer.name] = np.zeros(self.value(length, env), buffer.type.dtype)
                self.run(body, env)
                del self.flat[buffer.name]
            case Prefetch():
                pass

    def store(self, stmt: Store, env: dict[str, Any]) -> None:
        value, where = self.value(stmt.value, env), self.place(stmt.buffer, stmt.index, stmt.value.type.lanes, env)
        flat = self.flat[stmt.buffer.name]
        flat[where] = _OPERATORS[stmt.op](flat[where], value) if stmt.accumulate else value

    def place(self, buffer: Buffer, index: Expr, lanes: int, env: dict[str, Any]) -> slice | int:
        start = int(self.value(index, env))
        if not 0 <= start <= self.flat[buffer.name].size - max(lanes, 1):
            raise IndexError(f"{buffer.name}[{start} : {max(lanes, 1)}] of {self.flat[buffer.name].size}")
        return slice(start, start + lanes) if lanes else start

    def value(self, expr: Expr, env: dict[str, Any]) -> Any:
        match expr:
            case Const(value=value):
                if expr.type.lanes:
                    return np.full(expr.type.lanes, value, expr.type.dtype)
                return value if expr.type.is_float else int(value)
            case Var(name=name):
                return env[name]
            case Binary(op=op, left=left, right=right):
                return _wrapped(_OPERATORS[op](self.value(left, env), self.value(right, env)))
            case Compare(op=op, left=left, right=right):
                return _OPERATORS[op](self.value(left, env), self.value(right, env))
            case LowestBit(value=value):
                bits = self.value(value, env)
                return (bits & -bits).bit_length() - 1
            case Select(condition=condition, then=then, otherwise=otherwise):
                chosen = np.where(self.value(condition, env), self.value(then, env), self.value(otherwise, env))
                return chosen if chosen.ndim else chosen[()]
            case Load(buffer=buffer, index=index, lanes=lanes):
                loaded = self.flat[buffer.name][self.place(buffer, index, lanes, env)]
                return loaded.copy() if lanes else loaded if _is_float(buffer.type) else loaded.item()
            case Cast(value=value, dtype=dtype):
                with np.errstate(over="ignore"):
                    cast = np.asarray(self.value(value, env)).astype(dtype)
                return cast if cast.ndim else cast[()] if _is_float(expr.type) else cast.item()
            case Splat(value=value, lanes=lanes):
                return np.full(lanes, self.value(value, env), expr.type.dtype)
            case Widen(value=value, lanes=lanes, fill=fill):
                narrow = self.value(value, env)
                return np.concatenate([narrow, np.full(lanes - len(narrow), fill, narrow.dtype)])
            case HorizontalReduce(value=value, op=op):
                return reduce(_OPERATORS[op], self.value(value, env))
            case Extent(buffer=buffer, axis=axis):
                return self.shapes[buffer.name][axis]
            case Threads():
                return 1 if self.reverse else MANY
