"""Finds `Any` in the signatures of jsparse: `python tools/annotations.py [--list]`.

`Any` is for what neither JAX nor numpy has a type for. An argument that may be anything is an `object`. The exit status
is 1 if a folder has more annotations with `Any` than `AT_MOST` allows. With `--list` all that count are printed.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "jsparse"

# A function of the caller's: nothing is known of its arguments and results.
FUNCTION = "Callable[..., Any]"

# Methods whose types Python's protocols leave open.
PROTOCOLS = {"__array__", "__deepcopy__", "__getattr__", "__reduce__", "__setattr__"}

# Files about values that have no type, and what these are.
UNTYPED = {
    "base/dataclass.py": "objects of any frozen class",
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
    "_compat.py": 28,
    "adapters": 55,  # operands of the primitives of jax.experimental.sparse
    "base": 22,  # what users give, before it is checked
    "compiler": 157,  # values of llvmlite, which has no types, among them
    "convert": 18,
    "differentiation": 3,  # values of variables, and carries of loops
    "formats": 15,
    "graph": 12,  # graphs of networkx and jraph
    "io": 8,
    "linen": 2,
    "nn": 19,
    "nnx": 5,
    "notation": 8,
    "ops": 158,
    "planning": 66,
    "primitives": 503,  # operands may be tracers of any transformation
    "settings.py": 2,
    "sparsification": 40,  # numbers, arrays, deferred arrays and sparse values
    "tensor": 57,
}


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
    failed = False
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
