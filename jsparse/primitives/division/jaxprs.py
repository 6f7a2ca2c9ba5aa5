"""The sharding rule of a jaxpr: the rules of its equations, joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import jax

from jsparse import _compat
from jsparse._compat import Primitive
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize_weakly
from jsparse.primitives.chain.expand import run_steps, without_calls
from jsparse.primitives.chain.recomputation import read
from jsparse.primitives.division.rule import Classes, Division, Labels, Params, ShardingRule
from jsparse.primitives.spec import Operands

RuleOf: TypeAlias = Callable[[Primitive, Operands, Operands, Params], ShardingRule | None]


@dataclass(frozen=True)
class JaxprRule:
    """The labels of a jaxpr's arguments and results, and of the equations inside.

    Attributes:
        rules: for each equation, its own rule, and the label in the jaxpr for each of the rule's labels. None for an
            equation whose operands and results are whole.
    """

    jaxpr: Any
    operands: tuple[Labels, ...]
    results: tuple[Labels, ...]
    steps: tuple[frozenset[Any], ...]
    inner: tuple[tuple[Any, int], ...]
    rules: tuple[tuple[ShardingRule, Mapping[Any, Any]] | None, ...]

    def trace(self, shards: Operands, division: Division) -> Any:
        """The closed jaxpr of a device's part. Sums over devices follow where a divided index is summed."""
        return _compat.without_constants(jax.make_jaxpr(lambda *x: self.compute(x, division))(*shards))

    def compute(self, shards: Operands, division: Division) -> Operands:
        """Evaluate the jaxpr on shards."""
        rules = dict(zip(map(id, self.jaxpr.eqns), self.rules, strict=True))

        def compute(equation: Any, operands: list[Any]) -> Operands:
            ruled = rules[id(equation)]
            if ruled is None:
                return _compat.equation_results(self.jaxpr, equation, operands)
            rule, labels = ruled
            return rule.local(operands, division.under(labels))

        values = dict(zip(self.jaxpr.invars, shards, strict=True))
        return run_steps(self.jaxpr.eqns, compute, values, self.jaxpr.outvars)


@memoize_weakly
def rule_of_jaxpr(closed: Any, rule_of: RuleOf) -> JaxprRule:
    """Join the rules of a jaxpr's equations. `rule_of` gives the rule of each one, or None."""
    jaxpr, classes = without_calls(closed).jaxpr, Classes()
    rules = list[ShardingRule | None]()
    for number, equation in enumerate(jaxpr.eqns):
        operands, results = ([v.aval for v in side] for side in (equation.invars, equation.outvars))
        rule = rule_of(equation.primitive, operands, results, equation.params)
        rules.append(rule)
        variables = (*equation.invars, *equation.outvars)
        of = [None] * len(variables) if rule is None else [*rule.operands, *rule.results]
        for v, labels in zip(variables, of, strict=True):
            seen = (None,) * v.aval.ndim if labels is None else labels
            classes.merge_all(_axes(v), tuple(None if label is None else (number, label) for label in seen))
    for v in dict.fromkeys(v for e in jaxpr.eqns for v in (*read(e), *e.outvars)):
        classes.separate(_axes(v))
    named = tuple(
        None if rule is None else (rule, {label: classes.find((number, label)) for label in rule.labels})
        for number, rule in enumerate(rules)
    )
    invars, outvars = (tuple(classes.labels(_axes(v)) for v in side) for side in (jaxpr.invars, jaxpr.outvars))
    steps = tuple(frozenset(labels.values()) - {None} for _, labels in filter(None, named))
    every = dict.fromkeys(v for e in jaxpr.eqns for v in e.outvars)
    inner = {(classes.find(label), size) for v in every for label, size in zip(_axes(v), v.aval.shape, strict=True)}
    sizes = tuple((label, size) for label, size in inner if label is not None)
    return JaxprRule(jaxpr, invars, outvars, steps, sizes, named)


def _axes(v: Any) -> Labels:
    """The labels of a variable's axes; those of a literal are whole."""
    is_literal = isinstance(v, _compat.Literal)
    return tuple(None if is_literal else (v, n) for n in range(v.aval.ndim))
