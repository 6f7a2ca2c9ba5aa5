"""Summaries that know what has been computed for others: the same as a summary that computes everything itself."""

from dataclasses import fields, replace

import pytest
from compiler.cases import CASES

from jsparse.base.memo import lazy
from jsparse.compiler.schedule.prices.cost import Prices
from jsparse.compiler.schedule.search.candidates import candidates
from jsparse.compiler.schedule.summary import Summary

FIELDS = {field.name for field in fields(Summary)}
PROPERTIES = [
    name
    for record in Summary.__mro__
    for name, value in vars(record).items()
    if isinstance(value, lazy) and name != "shape"
]


def check(nest):
    """Compare all that a nest knows with what a new summary computes."""
    new = replace(nest)
    assert set(vars(new)) == FIELDS
    for name in set(vars(nest)) - FIELDS:
        assert getattr(nest, name) == getattr(new, name), (name, nest.steps)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_candidates_know_what_a_new_summary_computes(case):
    prices = Prices(case.plan.patterns)
    for nest in candidates(case.plan.given, case.plan.patterns):
        prices.of(nest)
        assert len(vars(nest)) > len(FIELDS)
        check(nest)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_candidates_have_the_loops_after_their_steps(case):
    for candidate in candidates(case.plan.given, case.plan.patterns):
        nest = Summary.canonical(case.plan.given, concordant=True)
        for step in candidate.steps:
            nest = nest.then(step)
        assert candidate == nest


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_step_hands_on_what_it_does_not_change(case):
    nest = Summary.canonical(case.plan.problem)
    for step in case.plan.schedule.steps:
        for name in PROPERTIES:
            getattr(nest, name)
        nest = nest.then(step)
        check(nest)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_nest_on_stored_patterns_knows_what_does_not_depend_on_them(case):
    for nest in candidates(case.plan.given, case.plan.patterns):
        for name in set(PROPERTIES) - {"chain", "reduces_innermost"}:  # orders are not chosen yet
            getattr(nest, name)
        check(nest.on(case.plan.problem))
