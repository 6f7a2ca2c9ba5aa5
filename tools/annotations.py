"""Finds `Any` in the signatures of jsparse: `python tools/annotations.py [--list]`.

`Any` is for what neither JAX nor numpy has a type for. An argument that may be anything is an `object`. The exit status
is 1 if a folder has more annotations with `Any` than `AT_MOST` allows, or if a public signature has one. With `--list`
all that count are printed.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import jsparse

ROOT = Path(__file__).parent.parent
PACKAGE = Path(jsparse.__file__).parent

# A function of the caller's: nothing is known of its arguments and results.
FUNCTION = "Callable[..., Any]"

# Methods whose types Python's protocols leave open.
PROTOCOLS = {"__array__", "__deepcopy__", "__getattr__", "__reduce__", "__setattr__"}

# Files about values that have no type, and what these are.
UNTYPED = {
    "base/dataclass.py": "the objects of classes that it makes",
    "equinox.py": "pytrees",
    "differentiation/gradients.py": "pytrees",
    "differentiation/rows.py": "pytrees",
    "optax/row_updates.py": "pytrees of parameters, and states of optimizers",
    "optax/values_only.py": "pytrees of parameters, and states of optimizers",
    "nnx/moments.py": "pytrees of parameters, and states of optimizers",
    "ops/fuse.py": "pytrees",
    "ops/trees.py": "pytrees",
    "sparsification/custom_derivatives.py": "pytrees, and values of the interpreter",
    "sparsification/trees.py": "pytrees, and values of the interpreter",
    "tensor/pytree.py": "children of pytrees, which JAX also fills with avals and objects",
    "convert/scipy_structure.py": "arrays of scipy, which has no types",
}

# The most annotations in each folder, or file beside the folders. Lower a number when you replace some. They are about
# operands before they are checked, results that are sparse or dense as the operands are, tangents that may be
# symbolic zeros, and parameters of primitives, for which a union would have to be narrowed at each use.
AT_MOST = {
    "_compat": 49,  # operands and errors of the interpreters of checkify and jet, and parameters of any equation
    "adapters": 55,  # operands of the primitives of jax.experimental.sparse
    "base": 22,  # what users give, before it is checked
    "compiler": 157,  # values of llvmlite, which has no types, among them
    "convert": 15,
    "differentiation": 2,  # values of variables, and carries of loops
    "formats": 14,
    "graph": 8,  # graphs of networkx and jraph
    "io": 7,
    "linen": 1,
    "nn": 16,
    "nnx": 3,
    "notation": 8,
    "ops": 131,
    "planning": 64,
    "primitives": 606,  # operands may be tracers of any transformation, and derivatives symbolic zeros
    "settings.py": 2,
    "sharded": 10,  # arguments of the functions that sharded tensors compute
    "sparsification": 39,  # numbers, arrays, deferred arrays and sparse values
    "tensor": 61,
}


PUBLIC = ("", ".nn", ".nnx", ".linen", ".graph", ".pattern", ".optax", ".lineax", ".equinox", ".io")
"""The packages whose `__all__` is public."""

LEFT = {"Schedule.found": "the step may be of any kind, and has the attributes of its kind"}


def public() -> Iterator[tuple[str, object]]:
    """The public functions, and the public methods of public classes, by name."""
    for package in (import_module(f"jsparse{name}") for name in PUBLIC):
        for name in package.__all__:
            item = getattr(package, name)
            if not inspect.isclass(item):
                yield f"{package.__name__}.{name}", item
                continue
            for method in (m for m in vars(item) if not m.startswith("_") or m in ("__init__", "__call__")):
                getattr(item, method, None)  # methods are imported when they are first looked up
                found = vars(item)[method]
                yield f"{name}.{method}", found.fget if isinstance(found, property) else getattr(item, method)


def open_signatures() -> list[str]:
    """The public annotations that are `Any`. Further arguments by name, `**options`, are passed on."""
    found = {}
    for name, item in public():
        function = inspect.unwrap(item) if callable(item) else item
        code = getattr(function, "__code__", None)
        if code is None or PACKAGE not in Path(code.co_filename).parents or name in LEFT:
            continue
        passed_on = inspect.getfullargspec(function).varkw
        for of, annotation in function.__annotations__.items():
            text = str(annotation).replace(FUNCTION, "")
            if re.search(r"\bAny\b", text) and of != passed_on:
                found[code, of] = f"{name}: {of}: {annotation}"
    return list(found.values())


def annotations(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef, str, ast.expr]]:
    """The annotations of a file that are to have a type: function, name of the parameter or "return", annotation."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name not in PROTOCOLS:
            given = node.args
            named = [*given.posonlyargs, *given.args, *given.kwonlyargs, *([given.vararg] if given.vararg else [])]
            yield from ((node, p.arg, p.annotation) for p in named if p.annotation)  # `**options` are passed on
            if node.returns:
                yield node, "return", node.returns


def has_any(annotation: ast.AST) -> bool:
    """Whether an annotation leaves open what a value is."""
    if ast.unparse(annotation) == FUNCTION:
        return False
    if isinstance(annotation, ast.Name):
        return annotation.id == "Any"
    return any(map(has_any, ast.iter_child_nodes(annotation)))


def main() -> int:
    """Count, and compare with what is allowed."""
    found = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        inner = path.relative_to(PACKAGE)
        if inner.as_posix() not in UNTYPED:
            for function, name, annotation in annotations(ast.parse(path.read_text())):
                if has_any(annotation):
                    place = f"{path.relative_to(ROOT)}:{annotation.lineno}: {name} of {function.name}"
                    found[inner.parts[0]].append(f"{place}: {ast.unparse(annotation)}")
    public_ones = open_signatures()
    if public_ones:
        print(*public_ones, "These signatures are public. Give them types.", sep="\n")
    failed = bool(public_ones)
    for folder, places in found.items():
        is_over = len(places) > AT_MOST.get(folder, 0)
        if is_over or "--list" in sys.argv:
            print(*places, sep="\n")
        if is_over:
            print(f"{folder}: {len(places)} annotations with Any, but at most {AT_MOST.get(folder, 0)} are allowed.")
        failed = failed or is_over
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
