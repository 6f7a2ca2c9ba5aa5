"""Writes the stubs of the graph layers for Flax: `python tools/stubs.py [--check]`.

The modules of `jsparse.nnx` and `jsparse.linen` are made from the layers of `jsparse.nn` when they are imported, which
type checkers and editors do not follow. The stubs have their signatures. With `--check` nothing is written, and the
exit status is 1 if a stub is not what the layers say.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

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
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "graph_layers.pyi", "-"]
    return subprocess.run(
        command, input="\n\n".join(lines), capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout


def main() -> int:
    """Write the stubs, or compare them."""
    differs = 0
    for framework in IMPORTS:
        path, text = ROOT / "jsparse" / framework / "graph_layers.pyi", stub(framework)
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.relative_to(ROOT)} is not what the layers say. Run python tools/stubs.py.")
            differs = 1
    return differs


if __name__ == "__main__":
    sys.exit(main())
