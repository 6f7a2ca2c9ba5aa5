"""The methods that type checkers see are the ones that are installed."""

import ast
import inspect
from pathlib import Path

import jsparse
from jsparse.formats import methods as pattern_methods
from jsparse.ops.methods import METHODS, OF_PATTERNS
from jsparse.tensor import methods as tensor_methods


def functions_by_method(module):
    """The function that an editor finds for each method in a stub; the methods that only mypy, and that both, see."""
    tree = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text())
    (cls,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    for_editors, for_mypy = (node.body for node in cls.body if isinstance(node, ast.If))
    functions = {
        alias.asname.replace("_from_coords", "from_coords"): (node.module, alias.name)
        for node in for_editors
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    both = {node.name for node in cls.body if isinstance(node, ast.FunctionDef)}
    return functions, {node.name for node in for_mypy}, both


def test_stubs_name_the_functions_that_are_installed():
    for module, class_, names in (
        (tensor_methods, jsparse.SparseTensor, METHODS),
        (pattern_methods, jsparse.Pattern, OF_PATTERNS),
    ):
        for_editors, for_mypy, both = functions_by_method(module)
        assert set(for_editors) == for_mypy
        assert for_mypy | both == set(names)
        for name, place in for_editors.items():
            function = inspect.unwrap(getattr(class_, name))
            assert (function.__module__, function.__name__) == place


def test_every_public_method_is_documented():
    for name in METHODS:
        if not name.startswith("_"):
            assert inspect.getdoc(getattr(jsparse.SparseTensor, name)), name
