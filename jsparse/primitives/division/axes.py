"""The sharding rule of each of our primitives.

An axis of an einsum may be divided if its index variable is in no pattern: entries read dense arrays by coordinates, so
a device needs all rows that its entries name. The slots of values are whole, and so are dense levels, which share an
axis with the slots. Batch axes, heads and columns remain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, cast

import jax
import numpy as np

from jsparse._compat import Primitive
from jsparse.compiler.dtypes import arithmetic_dtype
from jsparse.compiler.runtime.routine import with_batch_of
from jsparse.notation import IndexVar
from jsparse.primitives.division.dense import DENSE_RULES, labels_of_reshape
from jsparse.primitives.division.jaxprs import rule_of_jaxpr
from jsparse.primitives.division.rule import REDUCTIONS, Classes, Division, Labels, Params, Rule, ShardingRule
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.entries import entries_p
from jsparse.primitives.entries_spec import Entries
from jsparse.primitives.fused import fused_p, run_fused
from jsparse.primitives.map_values import map_p
from jsparse.primitives.permute_values import permute_values_p
from jsparse.primitives.routine import routine_p
from jsparse.primitives.softmax import logsumexp_p, softmax_p
from jsparse.primitives.spec import ArrayAccess, Operands, Spec
from jsparse.primitives.sums import Sum, sum_p


def _of_einsum(operands: Operands, results: Operands, params: Params) -> ShardingRule:
    spec: Spec = params["spec"]
    whole, add = whole_variables(spec), spec.semiring.add if spec.mask is None else "+"
    sums = {v for term in spec.factors for v in term.before if v not in whole} - set(spec.result.before)
    if sums and (add not in REDUCTIONS or results[0].dtype == np.bool_):
        whole, sums = whole | sums, set()

    def local(shards: Operands, division: Division) -> Operands:
        local_spec = resize_spec(spec, division)
        if not any(map(division.of, sums)):
            return [einsum_p.bind(*shards, spec=local_spec)]
        wide = replace(local_spec, dtype=arithmetic_dtype(results[0].dtype.name))  # rounded once, after the reduction
        part = einsum_p.bind(*shards, spec=wide)
        return [division.reduce_parts(part, sorted(sums), add).astype(results[0].dtype)]

    return ShardingRule(tuple(_operand_labels(spec, whole)), (_labels(spec.result, whole),), local)


def whole_variables(spec: Spec) -> frozenset[IndexVar]:
    """The index variables that devices may not divide: all of them if the user's schedule names loops."""
    if spec.schedule is not None:
        return frozenset(v for v, _ in spec.sizes)
    levels = {v for walk in spec.walks for v in walk.indices}
    return frozenset(levels.union(*(term.behind for term in (*spec.factors, spec.result))))


def _labels(term: ArrayAccess, whole: Collection[IndexVar]) -> Labels:
    before = tuple(None if v in whole else v for v in term.before)
    return before if term.on is None else (*before, None)


def _operand_labels(spec: Spec, whole: Collection[IndexVar]) -> Iterator[Labels]:
    """The labels of the factors, and of the index arrays of patterns."""
    yield from (_labels(term, whole) for term in spec.factors)
    for walk in spec.walks:
        lead = tuple(None if v in whole else v for v in walk.lead)
        yield from [(*lead, None)] * walk.operand_count


def resize_spec(spec: Spec, division: Division) -> Spec:
    """The spec of a device's part."""
    return replace(spec, sizes=tuple((v, division.part(size, v)) for v, size in spec.sizes))


def _of_softmax(primitive: Primitive, operands: Operands, results: Operands, params: Params) -> ShardingRule:
    """The rule of softmax, and of logsumexp."""
    spec: Spec = params["spec"]
    whole = whole_variables(spec).union(params["over"])

    def local(shards: Operands, division: Division) -> Operands:
        return [primitive.bind(*shards, **{**params, "spec": resize_spec(spec, division)})]

    return ShardingRule(tuple(_operand_labels(spec, whole)), (_labels(spec.result, whole),), local)


def _of_sum(operands: Operands, results: Operands, params: Params) -> ShardingRule:
    """Each einsum divides its own index variables. An array in several shapes is divided where they agree."""
    work: Sum = params["work"]
    classes, arrays = Classes(), (*operands, *results)
    axes = [tuple((n, axis) for axis in range(x.ndim)) for n, x in enumerate(arrays)]
    for number, (spec, of_term) in enumerate(zip(work.specs, work.numbers, strict=True)):
        whole = whole_variables(spec)
        # A sum over devices of one term would have to be added to the others.
        summed = {v for term in spec.factors for v in term.before}.difference(spec.result.before)
        terms = [*_operand_labels(spec, whole | summed), _labels(spec.result, whole)]
        index = [arrays[n].shape for n in of_term[len(spec.factors) :]]
        shapes = [*map(spec.shape, spec.factors), *index, spec.shape(spec.result)]
        for labels, shape, n in zip(terms, shapes, [*of_term, len(operands)], strict=True):
            kept, wanted = labels_of_reshape(arrays[n].shape, shape)
            classes.merge_all(axes[n], tuple(None if axis is None else (n, axis) for axis in kept))
            classes.merge_all(
                tuple(None if v is None else (number, v) for v in labels),
                tuple(None if axis is None else (n, axis) for axis in wanted),
            )

    def local(shards: Operands, division: Division) -> Operands:
        specs = tuple(
            resize_spec(spec, division.under({v: classes.find((number, v)) for v, _ in spec.sizes}))
            for number, spec in enumerate(work.specs)
        )
        shape = division.shape(work.shape, classes.labels(axes[-1]))
        return [sum_p.bind(*shards, work=replace(work, specs=specs, shape=shape))]

    *of_operands, of_result = map(classes.labels, axes)
    inner = [[(classes.find((n, v)), size) for v, size in spec.sizes] for n, spec in enumerate(work.specs)]
    named = [[(label, size) for label, size in of_term if label is not None] for of_term in inner]
    steps = tuple(frozenset(label for label, _ in of_term) for of_term in named)
    return ShardingRule(tuple(of_operands), (of_result,), local, steps, tuple(chain(*named)))


def _of_permutation(operands: Operands, results: Operands, params: Params) -> ShardingRule:
    labels = tuple(None if n == params["axis"] else n for n in range(operands[0].ndim))
    return ShardingRule((labels,), (labels,), lambda shards, _: [permute_values_p.bind(*shards, **params)])


def _of_map(operands: Operands, results: Operands, params: Params) -> ShardingRule:
    shape, is_padded = results[0].shape, params["padding"] is not None
    result: Labels = tuple(None if is_padded and n == len(shape) - 1 else n for n in range(len(shape)))

    def of(x: jax.core.ShapedArray) -> Labels:  # axes of size 1 are repeated
        return tuple(label if size == full else None for label, size, full in zip(result, x.shape, shape, strict=False))

    count = len(operands) - is_padded
    pointers = [(*of(x)[:-1], None) for x in operands[count:]]
    labels = (*map(of, operands[:count]), *pointers)
    return ShardingRule(labels, (result,), lambda shards, _: [map_p.bind(*shards, **params)])


def _of_entries(operands: Operands, results: Operands, params: Params) -> ShardingRule:
    """Batches of patterns without values are divided."""
    work: Entries = params["work"]

    def local(shards: Operands, division: Division) -> Operands:
        lead = tuple(division.part(size, n) for n, size in enumerate(work.lead))
        return cast(Operands, entries_p.bind(*shards, work=replace(work, lead=lead)))

    return ShardingRule(_leading(operands, len(work.lead)), _leading(results, len(work.lead)), local)


def _of_routine(operands: Operands, results: Operands, params: Params) -> ShardingRule:
    routine = params["routine"]
    count = int(routine.is_batched)

    def local(shards: Operands, division: Division) -> Operands:
        changed = dict(params)
        if count:
            labels = _leading(results, count)
            shapes = (division.shape(x.shape, of) for x, of in zip(results, labels, strict=True))
            changed["results"] = tuple((shape, x.dtype) for shape, x in zip(shapes, results, strict=True))
            changed["routine"] = replace(routine, params=with_batch_of(routine.params, changed["results"][0][0][0]))
        return cast(Operands, routine_p.bind(*shards, **changed))

    return ShardingRule(_leading(operands, count), _leading(results, count), local)


def _leading(arrays: Operands, count: int) -> tuple[Labels, ...]:
    """Labels of the first `count` axes of each array."""
    return tuple((*range(count), *[None] * (x.ndim - count)) for x in arrays)


def _of_fused(operands: Operands, results: Operands, params: Params) -> ShardingRule:
    rule = rule_of_jaxpr(params["closed"], rule_of)

    def local(shards: Operands, division: Division) -> Operands:
        return run_fused(rule.trace(shards, division), shards)

    return ShardingRule(rule.operands, rule.results, local, rule.steps, rule.inner)


RULES: Mapping[Any, Rule] = {
    einsum_p: _of_einsum,
    sum_p: _of_sum,
    softmax_p: partial(_of_softmax, softmax_p),
    logsumexp_p: partial(_of_softmax, logsumexp_p),
    permute_values_p: _of_permutation,
    map_p: _of_map,
    entries_p: _of_entries,
    routine_p: _of_routine,
    fused_p: _of_fused,
}
"""The sharding rules. All axes of a primitive without a rule are whole."""


def rule_of(primitive: Primitive, operands: Operands, results: Operands, params: Params) -> ShardingRule | None:
    """The sharding rule of a primitive on operands and results of these types; None if all axes have to be whole."""
    if primitive in RULES:
        return RULES[primitive](operands, results, params)
    dense = DENSE_RULES.get(primitive.name)
    return None if dense is None else dense(primitive, operands, results, params)
