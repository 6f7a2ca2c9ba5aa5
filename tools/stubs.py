"""Writes the stubs for what is made or imported late: `python tools/stubs.py [--check]`.

The modules of `jsparse.nnx` and `jsparse.linen` are made from the layers of `jsparse.nn` when they are imported, and
the public names of `jsparse` are imported when somebody asks for them (`jsparse/_names.py`). Type checkers and editors
follow neither, so the stubs have the signatures of the former and the imports of the latter. With `--check` nothing is
written, and the exit status is 1 if a stub is not up to date.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from jsparse._names import PLACES, SUBPACKAGES

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
    first, *others = inspect.signature(getattr(import_module(MADE), name)).parameters.values()
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


def formatted(text: str) -> str:
    """The text of a stub as `ruff` sorts and formats it."""
    for command in (["check", "--fix", "--quiet", "--select", "I,RUF022"], ["format"]):
        run = [sys.executable, "-m", "ruff", *command, "--stdin-filename", "stub.pyi", "-"]
        text = subprocess.run(run, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    return text


def main() -> int:
    """Write the stubs, or compare them."""
    differs = 0
    stubs = {ROOT / "jsparse" / framework / "graph_layers.pyi": stub(framework) for framework in IMPORTS}
    for path, text in {**stubs, ROOT / "jsparse" / "__init__.pyi": stub_of_names()}.items():
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.relative_to(ROOT)} is not up to date. Run python tools/stubs.py.")
            differs = 1
    return differs


if __name__ == "__main__":
    sys.exit(main())
