"""Writes the stubs for what is made or imported late: `python tools/stubs.py [--check]`.

The modules of `jsparse.nnx` and `jsparse.linen` are made from the layers of `jsparse.nn` when they are imported. The
public names of `jsparse` (`jsparse/_names.py`) and the methods of tensors (`jsparse/ops/methods.py`) are imported when
they are first used. Type checkers and editors follow none of this, so the stubs have the signatures of the modules, and
the imports of names and methods: "go to definition" leads to the function that does the work. With `--check` nothing is
written, and the exit status is 1 if a stub is not up to date.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from jsparse._names import PLACES, SUBPACKAGES
from jsparse.ops.methods import METHODS, OF_PATTERNS

ROOT = Path(__file__).parent.parent
HEAD = '''"""The graph layers of `jsparse.nn` as modules. Written by `python tools/stubs.py`."""

{imports}
'''
IMPORTS = {
    "nnx": """from flax import nnx
from jax.typing import DTypeLike

from jsparse.nn.hetero import Convs
from jsparse.nn.layer import Initializer
from jsparse.nnx.graph_layer import GraphLayer""",
    "linen": """from typing import Any

from jsparse.linen.graph_layer import GraphLayer
from jsparse.nn.hetero import Convs
from jsparse.nn.layer import Initializer""",
}
OF_LINEN = {"parent": "parent: Any = ...", "name": "name: str | None = None"}
MADE = "jsparse.ops.elementwise.functions"  # makes its functions when it is asked for them
LITERALS = (int, float, str, bool, type(None))


def option(p: inspect.Parameter) -> str:
    """A parameter of a signature, with its default if that can be written down."""
    if p.name in OF_LINEN:
        return OF_LINEN[p.name]
    kind = p.annotation if isinstance(p.annotation, str) else "Any"
    if p.default is p.empty:
        return f"{p.name}: {kind}"
    return f"{p.name}: {kind} = {p.default if isinstance(p.default, LITERALS) else '...'!r}".replace("'...'", "...")


def stub(framework: str) -> str:
    """The stub of a framework's graph layers."""
    layers = import_module(f"jsparse.{framework}.graph_layers")
    lines = [HEAD.format(imports=IMPORTS[framework]), f"__all__ = {sorted(layers.__all__)!r}"]
    for name in sorted(layers.__all__):
        parts, is_named = ["self"], False
        for p in inspect.signature(getattr(layers, name)).parameters.values():
            if p.kind is p.KEYWORD_ONLY and not is_named:
                parts.append("*")
                is_named = True
            parts.append(option(p))
        lines.append(f"class {name}(GraphLayer):\n    def __init__({', '.join(parts)}) -> None: ...")
    return formatted("\n\n".join(lines))


def unquoted(p: inspect.Parameter) -> str:
    """A parameter with its annotation, which is text."""
    return str(p).replace("'", "")


def signatures(name: str) -> list[str]:
    """The signatures of a function that is made from a row of the table of elementwise functions."""
    function = getattr(import_module(MADE), name)
    first, *others = inspect.signature(function).parameters.values()
    if others[0].kind is not first.kind:
        rest = ", ".join(unquoted(p) for p in others)
        types = (
            ("SparseTensor", "SparseTensor"),
            ("jax.Array", "jax.Array"),
            ("TensorLike", "SparseTensor | jax.Array"),
        )
        heads = [f"def {name}({first.name}: {given}, {rest}) -> {result}: ..." for given, result in types]
    else:
        heads = [f"def {name}({unquoted(first)}, {unquoted(others[0])}) -> SparseTensor | jax.Array: ..."]
    summary = (inspect.getdoc(function) or "").partition("\n")[0]
    heads[0] = heads[0].removesuffix("...") + f'\n    """{summary}"""'  # editors show it for all overloads
    return [line for head in heads for line in (["@overload"] * (len(heads) > 1) + [head])]


def stub_of_names() -> str:
    """The stub of `jsparse` itself."""
    lines = ['"""The public names of jsparse. Written by `python tools/stubs.py` from `jsparse/_names.py`."""', ""]
    lines += [f"from jsparse import {name} as {name}" for name in SUBPACKAGES]
    lines += ["from typing import overload", "import jax", "from jax.typing import ArrayLike"]
    lines += ["from jsparse.tensor.sparse_tensor import TensorLike"]
    lines += [f"from {place} import {name} as {name}" for name, place in PLACES.items() if place != MADE]
    lines += ["", "__version__: str", "EXPORT_CALLS: list[str]"]
    lines += [line for name, place in PLACES.items() if place == MADE for line in signatures(name)]
    lines += [f"__all__ = {sorted([*PLACES, *SUBPACKAGES, 'EXPORT_CALLS'])!r}"]
    return formatted("\n".join(lines))


HEAD_OF_METHODS = '''"""Methods that `jsparse.ops.methods` installs. Written by `python tools/stubs.py`.

Editors follow an import in a class to the file of the function. mypy rejects such imports, so it reads signatures.
"""

# mypy: disable-error-code="unreachable"

{imports}

MYPY = False  # mypy takes it for True
'''
RESULTS = {
    **dict.fromkeys(("matmul", "mul", "add", "sub", "and", "or", "xor"), "Any"),
    **dict.fromkeys(("sum", "reshape", "squeeze", "take", "diagonal", "trace", "coords"), "Any"),
    "divmod": "tuple[SparseTensor, SparseTensor]",
}
"""Method, or operator without underscores → its result, if this is not the function's: `Any` needs no narrowing."""


def stub_of_methods(class_: str, methods: Mapping[str, Callable[[], Any]]) -> str:
    """The stub of a base class whose methods are functions of other modules."""
    imports = {"from typing import Any", "from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike"}
    for_mypy, for_editors, for_both = [], [], []
    for name, find in methods.items():
        method = find()
        function = inspect.unwrap(getattr(method, "fget", None) or getattr(method, "__func__", method))
        operator = name.removeprefix("__").removesuffix("__")
        if name.startswith("__") and list(function.__annotations__.values())[1:-1] == ["TensorLike"]:
            result = RESULTS.get(operator) or RESULTS.get(operator.removeprefix("r"), "SparseTensor")
            for_both.append(f"    def {name}(self, other: TensorLike) -> {result}: ...")
            continue
        static = isinstance(method, staticmethod)
        signature = signature_as_method(function, name, imports, static)
        if isinstance(method, property):
            summary = (inspect.getdoc(function) or "").partition("\n")[0]
            for_both += ["    @property", f'    def {name}{signature}:\n        """{summary}"""']
            continue
        for_mypy += ["        @staticmethod"] * static + [f"        def {name}{signature}: ..."]
        for_editors.append(f"        from {function.__module__} import {function.__name__} as {'_' * static}{name}")
        for_editors += [f"        {name} = staticmethod(_{name})"] * static
    head = HEAD_OF_METHODS.format(imports="\n".join(sorted(imports)))
    body = [f"class {class_}:", "    if not MYPY:", *for_editors]
    body += ["    if 0:  # which only mypy reads", *for_mypy, *for_both]
    return formatted("\n".join([head, *body]))


def signature_as_method(function: Callable[..., object], name: str, imports: set[str], is_static: bool) -> str:
    """The signature that a function has as a method. Adds the imports of its types, which its file has, too."""
    module = function.__module__
    tree = ast.parse(inspect.getsource(import_module(module)))
    lines = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                parts = {**vars(node), "names": [alias]}
                lines[alias.asname or alias.name] = ast.unparse(type(node)(**parts))
    definitions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function.__name__]
    arguments = definitions[-1].args
    if not is_static:
        arguments.args[0] = ast.arg("self")
    result = RESULTS.get(name) or ast.unparse(definitions[-1].returns or ast.Constant(None))
    signature = f"({ast.unparse(arguments)}) -> {result}"
    types = {node.id for node in ast.walk(ast.parse(f"def f{signature}: ...")) if isinstance(node, ast.Name)}
    imports |= {lines[kind] for kind in types if kind in lines}
    return signature


def formatted(text: str) -> str:
    """The text of a stub as `ruff` sorts and formats it."""
    for command in (["check", "--fix", "--quiet", "--select", "F401,I,RUF022"], ["format"]):
        run = [sys.executable, "-m", "ruff", *command, "--stdin-filename", "stub.pyi", "-"]
        text = subprocess.run(run, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


def main() -> int:
    """Write the stubs, or compare them."""
    differs = 0
    stubs = {ROOT / "jsparse" / framework / "graph_layers.pyi": stub(framework) for framework in IMPORTS}
    stubs[ROOT / "jsparse" / "__init__.pyi"] = stub_of_names()
    stubs[ROOT / "jsparse" / "formats" / "methods.pyi"] = stub_of_methods("PatternMethods", OF_PATTERNS)
    stubs[ROOT / "jsparse" / "tensor" / "methods.pyi"] = stub_of_methods("TensorMethods", METHODS)
    for path, text in stubs.items():
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.relative_to(ROOT)} is not up to date. Run python tools/stubs.py.")
            differs = 1
    return differs


if __name__ == "__main__":
    sys.exit(main())
