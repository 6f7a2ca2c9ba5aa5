"""What is public in jsparse, on which page of docs/reference/ it stands, and its documentation for mkdocstrings.

A page lists in its front matter what it is about:

    public: [jsparse.ops.reductions, jsparse.norm]

Each is a module or a package, which stands for the public names that are defined there, or one public name, which
takes precedence. So a new function appears on the page of its package, and each name stands on one page.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import griffe
import yaml

from jsparse.formats.levelled import KnownArrays

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
PACKAGES = ("", "pattern", "graph", "nn", "nnx", "linen", "optax", "lineax", "equinox", "io")


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


@cache
def pages() -> dict[str, list[str]]:
    """The public names of each page of the reference. Raises ValueError unless each name is on one page."""
    listed = {path.name: yaml.safe_load(path.read_text().split("---\n")[1])["public"] for path in FOLDER.glob("*.md")}
    found: dict[str, list[str]] = {page: [] for page in listed}
    for name, module in public().items():
        scopes = [
            ((scope == name, len(scope)), page)
            for page, entries in listed.items()
            for scope in entries
            if scope == name or f"{module}.".startswith(f"{scope}.")
        ]
        closest = max((order for order, _ in scopes), default=None)
        best = [page for order, page in scopes if order == closest]
        if len(best) != 1:
            where = " and ".join(best) or "no page"
            raise ValueError(f"{name} of {module} is on {where} of docs/reference/, but has to be on one page.")
        found[best[0]].append(name)
    return found


class Inspector(griffe.Inspector):
    """Reads what is public from the imported package, since functions and layers are made of tables there.

    Members of modules and classes are documented where they are public, wherever they are defined, and without what
    classes inherit from other packages.
    """

    def generic_inspect(self, node: griffe.ObjectNode) -> None:
        for name in names_of(node.obj) if node.is_module else _methods(node.obj):
            static = inspect.getattr_static(node.obj, name, None)  # a module may make its names when they are asked for
            item = getattr(node.obj, name) if static is None else static
            item = _constructor(node.obj) if name == "__init__" else item
            self.inspect(griffe.ObjectNode(item, name, node))

    def _get_docstring(self, node: griffe.ObjectNode) -> griffe.Docstring | None:
        found = super()._get_docstring(node)
        if node.kind is griffe.ObjectKind.ATTRIBUTE:
            text = _text_of_constant(node.name, node.obj)
            found = griffe.Docstring(text, parser=self.docstring_parser) if text else found
        if found:
            found.value = DOCTEST.sub(_as_block, found.value)
        return found


# Doctests are indented, and end where the text goes on; those that are not indented end at an empty line.
DOCTEST = re.compile(r"^    >>> .*\n?(?:(?: *\n)*    .*\n?)*|^>>> .*\n?(?:.+\n?)*", re.MULTILINE)


def _as_block(found: re.Match[str]) -> str:
    """A doctest as a block of Python, which has its colours."""
    return f"```pycon\n{dedent(found[0]).strip()}\n```\n"


def _methods(owner: type) -> Iterator[str]:
    """The public methods and properties of a class, and its `__init__`, that classes of jsparse define."""
    for name in sorted(dir(owner)):
        within = next((base for base in owner.__mro__ if name in vars(base)), object)
        item = inspect.getattr_static(owner, name)
        is_member = isinstance(item, property | classmethod | staticmethod) or inspect.isroutine(item)
        is_ours = within.__module__.startswith("jsparse") and within is not KnownArrays  # which the package asks alone
        if is_member and (name == "__init__" or name[0] != "_") and is_ours:
            yield name


def _constructor(owner: type) -> Callable[..., None]:
    """`__init__` with the signature of its class, which may be another one, and without defaults that nobody passes."""

    def init() -> None: ...

    found = inspect.signature(owner)
    if set(found.parameters) == {"args", "kwargs"}:  # modules of NNX are made by a call of their metaclass
        found = inspect.signature(owner.__init__.__get__(object()))
    shown = [p for p in found.parameters.values() if " object at 0x" not in repr(p.default)]
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    init.__signature__ = found.replace(parameters=[own, *shown])  # type: ignore[attr-defined]
    return init


def _text_of_constant(name: str, item: object) -> str:
    """The string below the assignment of a constant, or the docstring of its class."""
    for module in [module for key, module in sys.modules.items() if key.startswith("jsparse")]:
        if vars(module).get(name) is item and module.__file__:
            for node, below in pairwise(ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body):
                targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                is_assigned = any(isinstance(target, ast.Name) and target.id == name for target in targets)
                if is_assigned and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                    return inspect.cleandoc(str(below.value.value))
    return (inspect.getdoc(type(item)) or "") if type(item).__module__.startswith("jsparse") else ""


def documentation(collection: griffe.ModulesCollection, options: dict[str, bool]) -> griffe.Module:
    """The package jsparse as griffe knows packages, with what is public in it. The options are of its parser."""
    found: dict[str, griffe.Module] = {}
    for module in modules():
        parent, _, name = module.__name__.rpartition(".")
        inspector = Inspector(
            name,
            Path(module.__file__ or ""),
            griffe.load_extensions(),
            found.get(parent),
            griffe.Parser.google,
            options,
            modules_collection=collection,
        )
        found[module.__name__] = inspector.get_module()
        if parent:
            found[parent].set_member(name, found[module.__name__])
    return found["jsparse"]
