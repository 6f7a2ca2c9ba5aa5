"""The documentation of what is public in jsparse, for mkdocstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import griffe
from public import methods, modules, names_of, text_of_constant


class Inspector(griffe.Inspector):
    """Reads what is public from the imported package, since functions and layers are made of tables there.

    Members of modules and classes are documented where they are public, wherever they are defined, and without what
    classes inherit from other packages.
    """

    def generic_inspect(self, node: griffe.ObjectNode) -> None:
        for name in names_of(node.obj) if node.is_module else methods(node.obj):
            static = inspect.getattr_static(node.obj, name, None)  # a module may make its names when they are asked for
            item = getattr(node.obj, name) if static is None else static
            item = _constructor(node.obj) if name == "__init__" else item
            self.inspect(griffe.ObjectNode(item, name, node))

    def _get_docstring(self, node: griffe.ObjectNode) -> griffe.Docstring | None:
        found = super()._get_docstring(node)
        if node.kind is griffe.ObjectKind.ATTRIBUTE:
            text = text_of_constant(node.name, node.obj)
            found = griffe.Docstring(text, parser=self.docstring_parser) if text else found
        if found:
            found.value = DOCTEST.sub(_as_block, found.value)
        return found


# Doctests are indented, and end where the text goes on; those that are not indented end at an empty line.
DOCTEST = re.compile(r"^    >>> .*\n?(?:(?: *\n)*    .*\n?)*|^>>> .*\n?(?:.+\n?)*", re.MULTILINE)


def _as_block(found: re.Match[str]) -> str:
    """A doctest as a block of Python, which has its colours."""
    return f"```pycon\n{dedent(found[0]).strip()}\n```\n"


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
