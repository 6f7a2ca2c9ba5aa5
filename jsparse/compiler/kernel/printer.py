"""KernelIR as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jsparse.compiler.kernel.nodes import (
    Binary,
    Block,
    Borrow,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Declare,
    Expr,
    Extent,
    Filter,
    For,
    Gather,
    HorizontalReduce,
    If,
    Let,
    Load,
    LocalArray,
    LowestBit,
    Parallel,
    Prefetch,
    Ramp,
    Select,
    Set,
    Splat,
    Stmt,
    Store,
    Threads,
    Var,
    Vector,
    While,
    Widen,
)

__all__ = ["expr_text", "kernel_text"]


def kernel_text(parameters: Sequence[Buffer], body: Stmt) -> str:
    """The code with one line for each statement, indented by nesting."""
    buffers = ", ".join(f"{b.name}: {b.type}*{' (written)' if b.written else ''}" for b in parameters)
    return "\n".join([f"kernel({buffers})", *_lines(body, "  ")])


def expr_text(expr: Expr) -> str:
    """An expression in the notation of Python."""
    match expr:
        case Const(value=value):
            return f"{value:g}" if expr.type.is_float else str(int(value))
        case Var(name=name):
            return name
        case Binary(op="min" | "max" as op, left=left, right=right):
            return f"{op}({expr_text(left)}, {expr_text(right)})"
        case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
            return f"({expr_text(left)} {op} {expr_text(right)})"
        case Load(buffer=buffer, index=index, lanes=lanes):
            return f"{buffer.name}[{expr_text(index)}{f' : {lanes}' if lanes else ''}]"
        case Gather(buffer=buffer, index=index):
            return f"{buffer.name}[{expr_text(index)}]"
        case Ramp(first=first, lanes=lanes):
            return f"ramp{lanes}({expr_text(first)})"
        case LowestBit(value=value):
            return f"lowest_bit({expr_text(value)})"
        case Select(condition=condition, then=then, otherwise=otherwise):
            return f"({expr_text(then)} if {expr_text(condition)} else {expr_text(otherwise)})"
        case Call(function=function, arguments=arguments):
            return f"{function}({', '.join(map(expr_text, arguments))})"
        case Cast(value=value, dtype=dtype):
            return f"{dtype}({expr_text(value)})"
        case Splat(value=value, lanes=lanes):
            return f"splat{lanes}({expr_text(value)})"
        case Widen(value=value, lanes=lanes, fill=fill):
            return f"widen{lanes}({expr_text(value)}{f', {fill}' if fill else ''})"
        case HorizontalReduce(value=value, op=op, lanes=lanes):
            return f"reduce{lanes or ''}({expr_text(value)}{'' if op == '+' else f', {op}'})"
        case Vector(values=values):
            return f"[{', '.join(map(expr_text, values))}]"
        case Extent(buffer=buffer, axis=axis):
            return f"{buffer.name}.shape[{axis}]"
        case Threads():
            return "threads"


def _lines(stmt: Stmt, indent: str) -> Iterator[str]:
    match stmt:
        case Block(stmts=stmts):
            for inner in stmts:
                yield from _lines(inner, indent)
        case For(var=var, start=start, stop=stop, step=step, body=body):
            by = f", {step}" if step != 1 else ""
            together = f", {stmt.copies} at a time" if stmt.copies > 1 else ""
            yield f"{indent}for {var.name} in range({expr_text(start)}, {expr_text(stop)}{by}){together}:"
            yield from _lines(body, indent + "  ")
        case While(condition=condition, body=body):
            yield f"{indent}while {expr_text(condition)}:"
            yield from _lines(body, indent + "  ")
        case If(condition=condition, then=then, otherwise=otherwise):
            yield f"{indent}if {expr_text(condition)}:"
            yield from _lines(then, indent + "  ")
            if otherwise is not None:
                yield f"{indent}else:"
                yield from _lines(otherwise, indent + "  ")
        case Parallel(var=var, count=count, body=body):
            yield f"{indent}parallel {var.name} < {expr_text(count)}:"
            yield from _lines(body, indent + "  ")
        case Borrow(buffer=buffer, length=length, body=body):
            yield f"{indent}with {buffer.name}: {buffer.type}[{expr_text(length)}]{' of zero' if stmt.zeros else ''}:"
            yield from _lines(body, indent + "  ")
        case Filter(var=var, start=start, stop=stop, mark=mark, found=found, count=count):
            yield f"{indent}for {var.name} in range({expr_text(start)}, {expr_text(stop)}) if {expr_text(mark)}:"
            yield f"{indent}  {found.name}[{count.name}++] = ({var.name} - {expr_text(start)})"
        case _:
            yield indent + _simple(stmt)


def _simple(stmt: Stmt) -> str:
    match stmt:
        case Let(var=var, value=value):
            return f"let {var.name}: {var.type} = {expr_text(value)}"
        case Declare(var=var, value=value):
            return f"var {var.name}: {var.type} = {expr_text(value)}"
        case Set(var=var, value=value):
            return f"{var.name} = {expr_text(value)}"
        case Store(buffer=buffer, index=index, value=value, accumulate=accumulate, op=op):
            return f"{buffer.name}[{expr_text(index)}] {op if accumulate else ''}= {expr_text(value)}"
        case Prefetch(buffer=buffer, index=index, length=length, near=near):
            return f"prefetch {'' if near else 'far '}{buffer.name}[{expr_text(index)} : {length}]"
        case LocalArray(buffer=buffer, length=length):
            return f"array {buffer.name}: {buffer.type}[{length}]"
        case _:
            raise TypeError(f"no text for {type(stmt).__name__}")
