"""The generator of random indirect statements: it makes all kinds, and numpy's result is that of the statement."""

from functools import partial

import jax
import numpy as np
import pytest
from evaluate import indirect_reference
from programs.composed import ComposedOperand
from programs.indirect import random_indirect
from programs.indirection import nested
from programs.program import SparseOperand

import jsparse
from jsparse import PatternError


def _leaves(program):
    return [leaf for _, product in program.expression.expanded() for leaf in product]


def test_numpy_agrees_with_the_text():
    for program in [random_indirect(1, n) for n in range(24)]:
        if program.dtype.name not in ("float32", "float64", "int32"):
            continue
        if program.operator == "=" and (program.before is not None or len(list(program.expression.expanded())) > 1):
            continue
        given = {name: x.array.astype(np.int32) for name, x in program.given.items()}
        got = jax.jit(partial(indirect_reference.evaluate, program.text, program.target_shape))(**given)
        np.testing.assert_array_equal(got, program.expected)


def test_assigning_an_element_twice_is_refused():
    programs = [random_indirect(2, n) for n in range(120)]
    twice = [p for p in programs if p.operator == "+=" and nested(p.target) and p.written.max(initial=0) > 1]
    assert len(twice) > 10
    for program in twice:
        tensors, out = program.arguments()
        with pytest.raises(PatternError, match="write each element of .* once"):
            jsparse.evaluate(program.text.replace("+=", "=", 1), shape=program.shape, out_format=out, **tensors)


def test_indirect_einsums_are_of_all_kinds():
    programs = [random_indirect(2, n) for n in range(300)]
    assert all(program.tables for program in programs)
    leaves = [[program.target, *_leaves(program)] for program in programs]
    inner = [[access for leaf in of for access in nested(leaf)] for of in leaves]
    assert any(nested(access) for of in inner for access in of)  # tables in tables
    assert any(len(set(access.indices)) < len(access.indices) for of in inner for access in of)
    assert any(len({access.name for access in of}) < len(set(of)) for of in inner)  # one table, other indices
    tables = [table for program in programs for _, table in program.tables]
    assert {len(table.shape) for table in tables} == {1, 2}
    assert len({table.dtype for table in tables}) == 5
    assert any(set(dict(p.tables)) & set(dict(p.tensors)) for p in programs)  # a table that is also a factor
    assert any(0 in x.shape for p in programs for x in p.given.values())
    assert any(min(table.values, default=0) < 0 for table in tables)
    assert {(p.operator, bool(nested(p.target)), p.before is not None) for p in programs} == {
        ("=", False, False), ("=", True, False), ("=", True, True),
        ("+=", False, False), ("+=", True, False), ("+=", True, True), ("+=", False, True),
    }  # fmt: skip
    kinds = {"dense" if p.out_format == "dense" else type(p.out_format) for p in programs}
    assert kinds == {"dense", SparseOperand, ComposedOperand, type(None), str}
    assert sum(isinstance(x, SparseOperand) for p in programs for _, x in p.tensors) > len(programs)
    assert any("(" in p.text for p in programs)
    assert any(not product for p in programs for _, product in p.expression.expanded())  # a term that is a number
    assert sum(p.summed.any() for p in programs) > 0.6 * len(programs)
