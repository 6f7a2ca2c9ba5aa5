"""The table of rules: what a primitive does with sparse tensors and deferred arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never

from jsparse.sparsification.equation import Equation

Rule = Callable[..., Any]
"""`rule(equation, *inputs)` gives the value of the result, or a list of all results' values."""

SPARSE: dict[str, Rule] = {}
"""Rules for equations with a SparseValue among their inputs, by the primitive's name."""

DEFERRED: dict[str, Rule] = {}
"""Rules for equations of arrays that may defer their results. They return NotImplemented where they do not defer."""


def sparse_rule(*names: str) -> Callable[[Rule], Rule]:
    """Make a function the rule of primitives with a sparse input."""
    return _registered(SPARSE, names)


def deferred_rule(*names: str) -> Callable[[Rule], Rule]:
    """Make a function the rule of primitives without a sparse input."""
    return _registered(DEFERRED, names)


def _registered(table: dict[str, Rule], names: tuple[str, ...]) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        table.update(dict.fromkeys(names, rule))
        return rule

    return register


def unsupported(equation: Equation, *_: object) -> Never:
    """The rule of every other primitive."""
    raise equation.unsupported(
        "is not defined for a SparseTensor", "Pass A.todense() there, or compute it by a function of jsparse outside."
    )
