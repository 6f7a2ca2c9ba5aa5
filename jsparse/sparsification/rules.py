"""The tables of rules. A rule evaluates a primitive on sparse tensors and deferred arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never

from jsparse.sparsification.equation import Equation

Rule = Callable[..., Any]
"""`rule(equation, *inputs)` returns the value of the result, or a list of the values of all results."""

SPARSE: dict[str, Rule] = {}
"""Rules for equations with a SparseValue among their inputs, by the primitive's name."""

DEFERRED: dict[str, Rule] = {}
"""Rules for equations of arrays that may defer their results. They return NotImplemented where they do not defer."""


def sparse_rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule of the primitives `names` if an input is sparse."""
    return _registrar(SPARSE, names)


def deferred_rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule of the primitives `names` if no input is sparse."""
    return _registrar(DEFERRED, names)


def _registrar(table: dict[str, Rule], names: tuple[str, ...]) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        table.update(dict.fromkeys(names, rule))
        return rule

    return register


def refuse(equation: Equation, *_: object) -> Never:
    """Refuse an equation. This rule applies to every primitive that has no other rule for sparse inputs."""
    raise equation.not_supported(
        "is not defined for a SparseTensor", "Pass A.todense() there, or compute it outside with a jsparse function."
    )
