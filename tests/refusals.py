"""Calls that are refused, as rows of a table, whose messages stand in a golden text.

A module of refusals, `test_refusals.py` of a folder, has a generator function for each topic, whose parameters are
fixtures. A row that it yields is the class of an error and a call that raises it; or those and the values for which the
call is made, one after the other (tuples of values if the call has several parameters):

    def reductions():
        A = jsparse.eye(3)
        yield DTypeError, lambda: A.sum(dtype="text")
        yield ShapeError, lambda axis: A.sum(axis), [2, -3, (0, 0)]

The module imports `test_refusals`, as a test of its own. That makes all calls of the module, and compares their texts,
the classes of their errors, and the whole messages with `refusals.txt` beside the module, which `pytest
--update-golden` writes. Equal entries stand there once.
"""

import ast
import inspect
import linecache
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from traceback import walk_tb

import pytest
from golden import compare

import jsparse

PACKAGE = Path(jsparse.__file__).parent

# What differs between machines, releases of other packages, and states of the files of tests.
VARYING = {
    r"\b0x[0-9a-f]{6,}": "0x...",
    r"(?<![\w.])/(?:[\w.+-]+/)+": ".../",
    r"(\.py):\d+": r"\1:N",
    r"\b(?:\w*Tracer|Traced)\b(?:\([^()]*\)|<.*?>(?:with<\w+>)?)?": "Tracer",
    r"(but got )[^.]*(\. It is a gradient of integers)": r"\1...\2",
    r"(but NumPy cannot make an array: ).*": r"\1...",
    r"\(Python integer .*?\)": "(...)",
    r"(which is not an array \().*(\)\. Convert)": r"\1...\2",
    r"(?s): (?:pytree structure error|Dict key mismatch).*": ": ...",
    r"\bjax\._src\.(?:\w+\.)+": "jax...",
}


def test_refusals(request: pytest.FixtureRequest) -> None:
    path = Path(request.module.__file__)
    entries, failures = [], []
    for topic in vars(request.module).values():
        if inspect.isgeneratorfunction(topic) and topic.__module__ == request.module.__name__:
            entries.append(f"{'' if not entries else chr(10)}## {topic.__name__}\n\n")
            entries += dict.fromkeys(_entries(topic, request, failures))
    if failures:
        raise ExceptionGroup("rows whose call does not raise their error", failures)
    compare(path.with_name(path.stem.removeprefix("test_") + ".txt"), "".join(entries), request)


def _entries(topic: Callable, request: pytest.FixtureRequest, failures: list[Exception]) -> Iterator[str]:
    """The entries of the rows of a topic, whose parameters are fixtures."""
    fixtures = {name: request.getfixturevalue(name) for name in inspect.signature(topic).parameters}
    for error, call, *values in topic(**fixtures):
        several = call.__code__.co_argcount - len(call.__defaults__ or ()) > 1
        for value in values[0] if values else [()]:
            arguments = value if several or not values else (value,)
            text = source_of(call, arguments)
            raised = _raised_by(call, arguments)
            if type(raised) is error and (context := _own_context(raised)) is not None:
                failure = AssertionError(f"{text} shows {context!r} before the error, which tells a user nothing")
                failure.__cause__ = raised
                failures.append(failure)
            elif type(raised) is error:
                yield f"{text}\n    {error.__name__}: {_normalized(str(raised))}\n"
            else:
                failure = AssertionError(f"Expected {error.__name__} of {text}, but it raised {raised!r}")
                failure.__cause__ = raised
                failures.append(failure)


def _raised_by(call: Callable, arguments: tuple) -> Exception | None:
    try:
        call(*arguments)
    except Exception as error:
        return error
    return None


def _own_context(error: BaseException) -> BaseException | None:
    """An error of the package itself during whose handling the error was raised, which a traceback shows before it."""
    while not error.__suppress_context__ and (context := error.__context__) is not None:
        *_, (frame, _) = walk_tb(context.__traceback__)
        if PACKAGE in Path(frame.f_code.co_filename).parents:
            return context
        error = context
    return None


def _normalized(message: str) -> str:
    for varying, replacement in VARYING.items():
        message = re.sub(varying, replacement, message)
    return message.replace("\n", "\n    ")


def source_of(call: Callable, arguments: tuple) -> str:
    """The body of a lambda as one line, in which arguments and defaults with a short text stand for their names."""
    code = call.__code__
    places = [place for place in code.co_positions() if all(place)]  # an instruction that is no expression has none
    (first, start), (last, end) = min((p[0], p[2]) for p in places), max((p[1], p[3]) for p in places)
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[first - 1 : last]]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    body = " ".join(line.decode().strip() for line in lines)
    body = re.sub(r"(?<=[(\[{]) (?=\S)", "", re.sub(r",? (?=[)\]}])", "", body)) if len(lines) > 1 else body
    names = dict(zip(code.co_varnames[: code.co_argcount], (*arguments, *(call.__defaults__ or ())), strict=True))
    shown = {name: text for name, value in names.items() if (text := _text_of(value))}
    found = [node for node in ast.walk(ast.parse(body, mode="eval")) if isinstance(node, ast.Name) and node.id in shown]
    for node in sorted(found, key=lambda node: node.col_offset, reverse=True):
        body = body[: node.col_offset] + shown[node.id] + body[node.end_col_offset :]
    return body


def _text_of(value: object) -> str | None:
    """A text of at most 100 characters for numbers, texts, containers, functions and types with a name."""
    if callable(value):
        name = getattr(value, "__name__", "<lambda>")
        return None if name == "<lambda>" else name
    if not isinstance(value, str | int | float | complex | tuple | list | dict | None):
        return None
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python prints
        return None
    return text if len(text) <= 100 and "\n" not in text else None
