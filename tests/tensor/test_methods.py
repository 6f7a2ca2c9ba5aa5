"""The methods that SparseTensor declares for type checkers are the ones that are installed."""

import ast
import inspect
from pathlib import Path

import jsparse
from jsparse.ops.methods import METHODS
from jsparse.tensor import sparse_tensor


def declared():
    """The parameters of each method in the class's block for type checkers, as (name, kind, default), by method."""
    tree = ast.parse(Path(sparse_tensor.__file__).read_text())
    (cls,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "SparseTensor")
    (block,) = (node for node in cls.body if isinstance(node, ast.If))
    found = {}
    for node in block.body:
        node.returns, node.decorator_list = None, []
        starred = [argument for argument in (node.args.vararg, node.args.kwarg) if argument]
        for argument in [*node.args.args, *node.args.kwonlyargs, *starred]:
            argument.annotation = None
        scope = {}
        exec(compile(ast.Module([node], []), "declared", "exec"), scope)
        found[node.name] = parameters(scope[node.name], static=node.name == "from_coords")
    return found


def parameters(function, static):
    """(name, kind, default) of each parameter, without `self`."""
    named = list(inspect.signature(function).parameters.values())[0 if static else 1 :]
    return [(p.name, p.kind, p.default) for p in named]


def test_declared_methods_are_installed():
    wanted = declared()
    assert set(wanted) == set(METHODS)
    for name, want in wanted.items():
        getattr(jsparse.SparseTensor, name)  # which imports it
        method = inspect.getattr_static(jsparse.SparseTensor, name)
        static = isinstance(method, staticmethod)
        function = method.fget if isinstance(method, property) else method
        got = parameters(method.__func__ if static else function, static)
        if name.startswith("__"):  # operators are called by position, so names of parameters do not matter
            want, got = ([(kind, default) for _, kind, default in each] for each in (want, got))
        assert got == want, name


def test_every_public_method_is_documented():
    for name in METHODS:
        if not name.startswith("_"):
            assert inspect.getdoc(getattr(jsparse.SparseTensor, name)), name
