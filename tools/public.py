"""What is public in jsparse, on which page of docs/reference/ it is, and in which order.

A page lists in its front matter what it is about:

    public: [jsparse.ops.reductions, jsparse.norm]

Each is a module or a package, which stands for the public names that are defined there, or one public name, which
takes precedence. So a new function appears on the page of its package, and each name is on one page. A page has
functions first, then classes, then constants, unless it says which groups it has, and in which order:

    public:
      Make graphs: [jsparse.graph.edges, jsparse.graph.libraries]
      Results: [jsparse.graph.Edges]

A group has functions first, too, in the order of the list.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import yaml

from jsparse.formats.levelled import KnownArrays

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
PACKAGES = ("", "pattern", "graph", "nn", "nnx", "linen", "optax", "lineax", "equinox", "io")
KINDS = ("Functions", "Classes", "Constants")


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module that are no modules."""
    found = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    return sorted(name for name in found if not isinstance(getattr(module, name), ModuleType))


def modules() -> list[ModuleType]:
    return [import_module(f"jsparse.{package}".rstrip(".")) for package in PACKAGES]


@cache
def public() -> dict[str, str]:
    """All public names, such as `jsparse.nn.gcn_conv`, each with the module that defines it."""
    found = {}
    for module in modules():
        for name in names_of(module):
            item = getattr(module, name)
            is_defined = inspect.isclass(item) or inspect.isroutine(item)
            found[f"{module.__name__}.{name}"] = item.__module__ if is_defined else module.__name__
    return found


def item_of(name: str) -> object:
    """What a public name stands for."""
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def kind_of(name: str) -> int:
    """The number of a name's kind in `KINDS`."""
    item = item_of(name)
    return 1 if inspect.isclass(item) else 0 if inspect.isroutine(item) else 2


@cache
def pages() -> dict[str, dict[str, list[str]]]:
    """The public names of each page of the reference, by groups.

    Raises ValueError unless each name is on one page, and what pages list has names.
    """
    listed = {path.name: _groups(path) for path in sorted(FOLDER.glob("*.md"))}
    scopes = [
        (scope, (page, number, group, place))
        for page, groups in listed.items()
        for number, (group, entries) in enumerate(groups.items())
        for place, scope in enumerate(entries)
    ]
    rows = []
    unused = {scope for scope, _ in scopes}
    for name, module in public().items():
        fits = [
            ((scope == name, len(scope)), at, scope)
            for scope, at in scopes
            if scope == name or f"{module}.".startswith(f"{scope}.")
        ]
        best = [(at, scope) for closeness, at, scope in fits if closeness == max(closest for closest, *_ in fits)]
        if len(best) != 1:
            where = " and ".join(at[0] for at, _ in best) or "no page"
            raise ValueError(f"{name} of {module} is on {where} of docs/reference/, but has to be on one page.")
        (((page, number, group, place), scope),) = best
        unused.discard(scope)
        kind = kind_of(name)
        rows.append((page, number, group, kind, place, name) if group else (page, kind, KINDS[kind], kind, 0, name))
    if unused:
        raise ValueError(
            f"{', '.join(sorted(unused))}: pages of docs/reference/ list them, but nothing public is there."
        )
    found: dict[str, dict[str, list[str]]] = {page: {} for page in listed}
    for page, _, group, *_, name in sorted(rows):
        found[page].setdefault(group, []).append(name)
    return found


def _groups(path: Path) -> dict[str, list[str]]:
    """What the front matter of a page lists, by groups. A list has no groups but those of `KINDS`."""
    entries = yaml.safe_load(path.read_text(encoding="utf-8").split("---\n")[1])["public"]
    return entries if isinstance(entries, dict) else {"": entries}


def methods(owner: type) -> Iterator[str]:
    """The public methods and properties of a class, and its `__init__`, that classes of jsparse define."""
    fields = {field.name for field in dataclasses.fields(owner)} if dataclasses.is_dataclass(owner) else set()
    for name in sorted({*dir(owner)} - fields):  # the default of a field may be a function
        within = next((base for base in owner.__mro__ if name in vars(base)), object)
        item = inspect.getattr_static(owner, name)
        is_member = isinstance(item, property | classmethod | staticmethod) or inspect.isroutine(item)
        is_ours = within.__module__.startswith("jsparse") and within is not KnownArrays  # which the package asks alone
        if is_member and (name == "__init__" or name[0] != "_") and is_ours:
            yield name


def text_of(name: str) -> str:
    """The docstring of a public name."""
    item = item_of(name)
    return (inspect.getdoc(item) or "") if kind_of(name) < 2 else text_of_constant(name.rpartition(".")[2], item)


def first_sentence(text: str) -> str:
    """The first sentence of a text, as one line."""
    paragraph = re.sub(r"\s+", " ", text.strip().split("\n\n")[0])
    return re.split(r"(?<=[.?!])(?<!e\.g\.)(?<!i\.e\.) (?=[^a-z(]|jsparse)", paragraph, maxsplit=1)[0]


def text_of_constant(name: str, item: object) -> str:
    """The string below the assignment of a constant, or the docstring of its class."""
    for module in [module for key, module in sys.modules.items() if key.startswith("jsparse")]:
        if vars(module).get(name) is item and module.__file__:
            for node, below in pairwise(ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body):
                targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                is_assigned = any(isinstance(target, ast.Name) and target.id == name for target in targets)
                if is_assigned and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                    return inspect.cleandoc(str(below.value.value))
    return (inspect.getdoc(type(item)) or "") if type(item).__module__.startswith("jsparse") else ""
