"""The interpreter of jaxprs whose values may be sparse tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jsparse import _compat
from jsparse.errors import JsparseError, NotYetSupportedError
from jsparse.sparsify.deferred import dense
from jsparse.sparsify.equation import Equation
from jsparse.sparsify.rules import DEFERRED, SPARSE, unsupported
from jsparse.sparsify.sparse_value import SparseValue

__all__ = ["interpret"]


def interpret(closed: Any, inputs: Sequence[Any]) -> list[Any]:
    """The results of a closed jaxpr for values that are arrays, deferred arrays or sparse values."""
    live = _compat.without_dead_equations(closed)
    jaxpr, known = live.jaxpr, {}

    def read(v: Any) -> Any:
        return np.asarray(v.val, v.aval.dtype)[()] if isinstance(v, _compat.Literal) else known[v]

    known.update(zip(jaxpr.constvars, live.consts, strict=True))
    known.update(zip(jaxpr.invars, inputs, strict=True))
    for source in jaxpr.eqns:
        equation = Equation(source, jaxpr, interpret)
        known.update(zip(source.outvars, _results(equation, [read(v) for v in source.invars]), strict=True))
    return [read(v) for v in jaxpr.outvars]


def _results(equation: Equation, inputs: Sequence[Any]) -> list[Any]:
    is_sparse = any(isinstance(x, SparseValue) for x in inputs)
    rule = SPARSE.get(equation.name, unsupported) if is_sparse else DEFERRED.get(equation.name)
    try:
        found = NotImplemented if rule is None else rule(equation, *inputs)
    except NotYetSupportedError:
        raise
    except JsparseError as error:
        raise equation.located(error) from error
    if found is NotImplemented:
        return equation.results([dense(x) for x in inputs])
    return found if isinstance(found, list) else [found]
