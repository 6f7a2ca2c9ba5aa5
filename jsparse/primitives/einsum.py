"""`einsum`: a product of arrays, some of them values on one pattern, summed into an array or into values on it.

    R = Σ  X₁ · X₂ · … · Xₙ

Every factor and the result is a *term*: a dense array, or values on the pattern. The product is linear in each
factor, so

    JVP        dR = Σₙ X₁ · … · dXₙ · … · Xₙ
    transpose  X̄ₙ = Σ R̄ · ∏ₘ≠ₙ Xₘ,  summed over the indices that Xₙ lacks

which is again an einsum of this kind: the term of Xₙ and that of the result change places. If Xₙ was on the pattern,
its cotangent is computed on the pattern only (a sampled product); nothing dense of a sparse tensor's shape ever exists.
A batch axis is one more index. So one primitive is closed under differentiation, transposition and batching.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from string import ascii_letters
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jsparse import _compat
from jsparse.compiler.bound import array_names
from jsparse.compiler.problem import Axis, Dense, Positions, Problem, TensorType
from jsparse.compiler.runtime import KernelCall, call_of
from jsparse.compiler.schedule import Plan, plan
from jsparse.compiler.schedule.select import pattern_type
from jsparse.formats import Pattern
from jsparse.notation import Access, Assignment, IndexVar
from jsparse.notation.einsum import operand_name
from jsparse.primitives.kernel import call_kernel
from jsparse.primitives.regather import regather

__all__ = ["Spec", "Term", "einsum_p", "make_plan"]


@dataclass(frozen=True, slots=True)
class Term:
    """The indices of an array's axes. On the pattern, its positions stand between `before` and `behind`:

    a dense array has shape (before…); values on the pattern have shape (before…, slots · behind…), flat behind the
    positions as `SparseTensor.values` is.
    """

    before: tuple[IndexVar, ...]
    on_pattern: bool = False
    behind: tuple[IndexVar, ...] = ()

    def shape(self, sizes: dict[IndexVar, int], slots: int) -> tuple[int, ...]:
        """The array's shape where the pattern's core has that many slots."""
        outer = tuple(sizes[v] for v in self.before)
        return (*outer, slots * prod(sizes[v] for v in self.behind)) if self.on_pattern else outer


@dataclass(frozen=True, slots=True)
class Spec:
    """What is computed.

    Attributes:
        factors, result: the terms.
        walk: the index of each level of `pattern`, which is a core (see `formats.pattern.core_of`).
        sizes: of every index.
    """

    factors: tuple[Term, ...]
    result: Term
    walk: tuple[IndexVar, ...]
    pattern: Pattern
    sizes: tuple[tuple[IndexVar, int], ...]

    def exchanged(self, place: int) -> Spec:
        """The transpose in one factor: it becomes the result, and the result the last factor."""
        others = (*self.factors[:place], *self.factors[place + 1 :])
        return replace(self, factors=(*others, self.result), result=self.factors[place])


def _abstract(*operands: Any, spec: Spec) -> Any:
    shape = spec.result.shape(dict(spec.sizes), spec.pattern.nse)
    return _compat.output_aval(shape, operands[0].dtype, operands)


def _bind(operands: Sequence[Any], spec: Spec) -> jax.Array:
    result: jax.Array = einsum_p.bind(*_compat.same_varying(operands), spec=spec)
    return result


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, spec: Spec) -> Any:
    out = _bind(primals, spec)
    parts = [
        _bind((*primals[:n], tangent, *primals[n + 1 :]), spec)
        for n, tangent in enumerate(tangents)
        if type(tangent) is not _compat.Zero
    ]
    return out, _compat.add_tangents(parts, out)


def _transpose(cotangent: Any, *operands: Any, spec: Spec) -> Any:
    (place,) = (n for n, operand in enumerate(operands) if _compat.is_undefined(operand))
    out: list[Any] = [None] * len(operands)
    if type(cotangent) is _compat.Zero:
        out[place] = _compat.Zero(operands[place].aval)
        return out
    known = [operand for n, operand in enumerate(operands) if n != place]
    out[place] = _bind((*known, cotangent), spec.exchanged(place))
    return out


def _batch(operands: Sequence[Any], axes: Sequence[int | None], *, spec: Spec) -> Any:
    """The batch axis becomes an index, the first of the result; arrays keep their layout where they can."""
    used = {v for v, _ in spec.sizes}
    name = next(letter for letter in ascii_letters if letter not in used)
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    moved, terms = [], []
    for operand, axis, term in zip(operands, axes, spec.factors, strict=True):
        if axis is None:
            moved.append(operand)
            terms.append(term)
            continue
        behind_positions = axis > len(term.before)
        at = 0 if behind_positions else axis
        moved.append(jnp.moveaxis(operand, axis, 0) if behind_positions else operand)
        terms.append(replace(term, before=(*term.before[:at], name, *term.before[at:])))
    result = replace(spec.result, before=(name, *spec.result.before))
    batched = replace(spec, factors=tuple(terms), result=result, sizes=(*spec.sizes, (name, size)))
    return _bind(moved, batched), 0


def _axes(term: Term, walk: tuple[IndexVar, ...]) -> tuple[Axis, ...]:
    if not term.on_pattern:
        return tuple(Dense(n) for n in range(len(term.before)))
    outer, middle = len(term.before), len(walk)
    behind = (Dense(outer + middle + n) for n in range(len(term.behind)))
    return (*(Dense(n) for n in range(outer)), Positions(0, tuple(range(outer, outer + middle))), *behind)


def _problem(spec: Spec, dtypes: tuple[str, ...]) -> Problem:
    terms = (spec.result, *spec.factors)
    names = (operand_name(len(spec.factors)), *(operand_name(n) for n in range(len(spec.factors))))

    def access(name: str, term: Term) -> Access:
        return Access(name, (*term.before, *spec.walk, *term.behind) if term.on_pattern else term.before)

    accesses = [access(name, term) for name, term in zip(names, terms, strict=True)]
    tensors = tuple(TensorType(n, d, _axes(t, spec.walk)) for n, d, t in zip(names, dtypes, terms, strict=True))
    assignment = Assignment(accesses[0], tuple(accesses[1:]))
    known = dict(spec.sizes)
    variables = (*assignment.variables(), *(v for v in spec.walk if v not in assignment.variables()))
    return Problem(assignment, tensors, (pattern_type(spec.pattern),), tuple((v, known[v]) for v in variables))


@lru_cache(maxsize=256)
def make_plan(spec: Spec, dtypes: tuple[str, ...]) -> tuple[Plan, KernelCall]:
    """The plan for `spec` and its call; `dtypes` are those of the result and of the factors."""
    chosen = plan(_problem(spec, dtypes), (spec.pattern,))
    bound = array_names(chosen.patterns[0], spec.pattern)
    return chosen, call_of(chosen.problem, chosen.schedule, bound)


def _run(*operands: Any, spec: Spec) -> jax.Array:
    """Values to the pattern's order of storage, dense arrays to theirs, the kernel, and back."""
    names = tuple(np.dtype(x.dtype).name for x in (operands[0], *operands))
    chosen, call = make_plan(spec, names)
    result, *factors = chosen.problem.tensors
    stored = [_stored(x, t, f, spec, chosen) for x, t, f in zip(operands, spec.factors, factors, strict=True)]
    shape = spec.result.shape(dict(spec.sizes), spec.pattern.nse)
    if spec.result.on_pattern:
        out = call_kernel(call, stored, shape, operands[0].dtype, (spec.pattern,))
        return _moved(out, spec.result, spec, chosen, back=True)
    order = _order(result)
    out = call_kernel(call, stored, tuple(shape[n] for n in order), operands[0].dtype, (spec.pattern,))
    return jnp.transpose(out, tuple(int(n) for n in np.argsort(order)))


def _order(tensor: TensorType) -> tuple[int, ...]:
    return tuple(axis.dim for axis in tensor.axes if isinstance(axis, Dense))


def _stored(x: Any, term: Term, tensor: TensorType, spec: Spec, chosen: Plan) -> Any:
    if term.on_pattern:
        return _moved(x, term, spec, chosen, back=False)
    order = _order(tensor)
    return x if order == tuple(range(x.ndim)) else jnp.transpose(x, order)


def _moved(x: Any, term: Term, spec: Spec, chosen: Plan, back: bool) -> Any:
    """Values between the order in which the tensor stores them and the one in which the loops walk them."""
    derived = chosen.patterns[0]
    if derived == spec.pattern:
        return x
    relayout = spec.pattern.relayout_to(derived.format)
    if relayout.is_identity:
        return x
    inner = prod(dict(spec.sizes)[v] for v in term.behind)
    axis = len(term.before)
    blocks = x.reshape(*x.shape[:axis], (relayout.target if back else relayout.source).nse, inner)
    return regather(blocks, relayout, inverse=back, axis=axis).reshape(*x.shape[:axis], -1)


einsum_p = _compat.make_primitive("jsparse_einsum", _abstract)
_compat.register_jvp(einsum_p, _jvp)
_compat.register_transpose(einsum_p, _transpose)
_compat.register_batching(einsum_p, _batch)
_compat.register_cpu_lowering(einsum_p, _compat.lower_as(_run))
