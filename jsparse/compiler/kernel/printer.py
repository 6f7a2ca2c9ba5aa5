"""KernelIR as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jsparse.compiler.kernel import nodes as ir


def kernel_text(parameters: Sequence[ir.Buffer], body: ir.Stmt) -> str:
    """The code with one line for each statement, indented by nesting."""
    buffers = ", ".join(f"{b.name}: {b.type}*{' (written)' if b.written else ''}" for b in parameters)
    return "\n".join([f"kernel({buffers})", *_lines(body, "  ")])


def expr_text(expr: ir.Expr) -> str:
    """An expression in the notation of Python."""
    match expr:
        case ir.Const(value=value):
            return f"{value:g}" if expr.type.is_float else str(int(value))
        case ir.Var(name=name):
            return name
        case ir.Binary(op="min" | "max" as op, left=left, right=right):
            return f"{op}({expr_text(left)}, {expr_text(right)})"
        case ir.Binary(op=op, left=left, right=right) | ir.Compare(op=op, left=left, right=right):
            return f"({expr_text(left)} {op} {expr_text(right)})"
        case ir.Load(buffer=buffer, index=index, lanes=lanes):
            return f"{buffer.name}[{expr_text(index)}{f' : {lanes}' if lanes else ''}]"
        case ir.Gather(buffer=buffer, index=index):
            return f"{buffer.name}[{expr_text(index)}]"
        case ir.Ramp(first=first, lanes=lanes):
            return f"ramp{lanes}({expr_text(first)})"
        case ir.LowestBit(value=value):
            return f"lowest_bit({expr_text(value)})"
        case ir.Select(condition=condition, then=then, otherwise=otherwise):
            return f"({expr_text(then)} if {expr_text(condition)} else {expr_text(otherwise)})"
        case ir.Call(function=function, arguments=arguments):
            return f"{function}({', '.join(map(expr_text, arguments))})"
        case ir.Cast(value=value, dtype=dtype):
            return f"{dtype}({expr_text(value)})"
        case ir.Splat(value=value, lanes=lanes):
            return f"splat{lanes}({expr_text(value)})"
        case ir.WidenLanes(value=value, lanes=lanes, fill=fill):
            return f"widen{lanes}({expr_text(value)}{f', {fill}' if fill else ''})"
        case ir.HorizontalReduce(value=value, op=op, lanes=lanes):
            return f"reduce{lanes or ''}({expr_text(value)}{'' if op == '+' else f', {op}'})"
        case ir.BuildVector(values=values):
            return f"[{', '.join(map(expr_text, values))}]"
        case ir.Extent(buffer=buffer, axis=axis):
            return f"{buffer.name}.shape[{axis}]"
        case ir.Threads():
            return "threads"
        case ir.Lane():
            return "lane"
        case ir.Across(value=value, op=op, width=width, least=least):
            distances = f"{width // 2}" if least == width // 2 else f"{width // 2}…{least}"
            return f"across {distances}({expr_text(value)}{'' if op == '+' else f', {op}'})"
        case ir.FromThread(value=value, thread=thread):
            return f"from thread {expr_text(thread)}({expr_text(value)})"
        case ir.Extract(value=value, number=number):
            return f"{expr_text(value)}.{number}"


def _lines(stmt: ir.Stmt, indent: str) -> Iterator[str]:
    match stmt:
        case ir.Block(stmts=stmts):
            for inner in stmts:
                yield from _lines(inner, indent)
        case ir.For(var=var, start=start, stop=stop, step=step, body=body):
            by, together = f", {step}" * (step != 1), f", {stmt.copies} at a time" * (stmt.copies > 1)
            yield f"{indent}for {var.name} in range({expr_text(start)}, {expr_text(stop)}{by}){together}:"
            yield from _lines(body, indent + "  ")
        case ir.While(condition=condition, body=body):
            yield f"{indent}while {expr_text(condition)}:"
            yield from _lines(body, indent + "  ")
        case ir.If(condition=condition, then=then, otherwise=otherwise):
            yield f"{indent}if {expr_text(condition)}:"
            yield from _lines(then, indent + "  ")
            if otherwise is not None:
                yield f"{indent}else:"
                yield from _lines(otherwise, indent + "  ")
        case ir.Sync():
            yield f"{indent}sync"
        case ir.ParallelFor(var=var, count=count, body=body):
            yield f"{indent}parallel {var.name} < {expr_text(count)}:"
            yield from _lines(body, indent + "  ")
        case ir.Borrow(buffer=buffer, length=length, body=body):
            yield f"{indent}with {buffer.name}: {buffer.type}[{expr_text(length)}]{' of zero' if stmt.zeros else ''}:"
            yield from _lines(body, indent + "  ")
        case ir.Filter(var=var, start=start, stop=stop, mark=mark, found=found, count=count):
            yield f"{indent}for {var.name} in range({expr_text(start)}, {expr_text(stop)}) if {expr_text(mark)}:"
            yield f"{indent}  {found.name}[{count.name}++] = ({var.name} - {expr_text(start)})"
        case ir.Bind(var=var, value=value):
            yield f"{indent}let {var.name}: {var.type} = {expr_text(value)}"
        case ir.Declare(var=var, value=value):
            yield f"{indent}var {var.name}: {var.type} = {expr_text(value)}"
        case ir.Set(var=var, value=value):
            yield f"{indent}{var.name} = {expr_text(value)}"
        case ir.Store(buffer=buffer, index=index, value=value, accumulate=accumulate, op=op):
            yield f"{indent}{buffer.name}[{expr_text(index)}] {op if accumulate else ''}= {expr_text(value)}"
        case ir.PrefetchLines(buffer=buffer, index=index, length=length, near=near):
            yield f"{indent}prefetch {'' if near else 'far '}{buffer.name}[{expr_text(index)} : {length}]"
        case ir.LocalArray(buffer=buffer, length=length):
            yield f"{indent}array {buffer.name}: {buffer.type}[{length}]"
        case _:
            raise TypeError(f"no text for {type(stmt).__name__}")
