"""From an einsum's operands to one bind of the primitive: sizes, dtypes, and whether and where the result is stored.

All of it follows from the operands' signatures, so it is done once for each of them and remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.dynamic import DynamicPattern
from jsparse.errors import DTypeError, FormatError, NotYetSupportedError, ShapeError, SubscriptError
from jsparse.formats import DynamicType, Format, Pattern
from jsparse.notation import Access, Assignment, IndexVar, parse_einsum
from jsparse.primitives.spec import Spec, Term, Walked
from jsparse.signature import Core, Signature, StoredOn, signature, stored_on
from jsparse.tensor import SparseTensor

__all__ = ["Contraction", "OutFormat", "as_array", "clear_cache", "contraction", "dense_array"]

SUPPORTED_DTYPES = ("float32", "float64", "int32", "int64")
REMEMBERED = 256  # statements; each holds its patterns

WalkKey: TypeAlias = tuple[Pattern | DynamicType, int, tuple[IndexVar, ...]]
OutFormat: TypeAlias = str | Format | SparseTensor | None


@dataclass(frozen=True, slots=True)
class Contraction:
    """An einsum that is checked.

    Attributes:
        dtype: of the result, to which all operands are converted.
        alone: for each operand the einsum that sums what only it carries, None if there is nothing to do.
        spec: what the primitive computes; None if no level is left to walk and dense arrays do.
        result: the pattern of a sparse result, None for a dense one.
        index_from: for each dynamic pattern that is walked, the operand (-1: `out_format`) that lies on it.
    """

    subscripts: str
    assignment: Assignment
    dtype: np.dtype
    alone: tuple[str | None, ...]
    spec: Spec | None
    result: Pattern | DynamicType | None
    index_from: tuple[int, ...] = ()

    def arrays(self, operands: Sequence[Any]) -> list[Any]:
        """The operands as the primitive (or the dense einsum) takes them."""
        return [self._array(x, n) for n, x in enumerate(operands)]

    def walked(self, operands: Sequence[Any], out_format: OutFormat) -> list[DynamicPattern]:
        """The dynamic patterns that are walked."""
        tensors = [out_format if n < 0 else operands[n] for n in self.index_from]
        return [x.pattern for x in tensors if isinstance(x, SparseTensor) and isinstance(x.pattern, DynamicPattern)]

    def stored_like(self, walked: Sequence[DynamicPattern]) -> DynamicPattern | None:
        """Which of them a dynamic result lies on."""
        if self.spec is None or self.spec.result.on is None:
            return None
        dynamic = [n for n, walk in enumerate(self.spec.walks) if not isinstance(walk.pattern, Pattern)]
        return walked[dynamic.index(self.spec.result.on)] if self.spec.result.on in dynamic else None

    def _array(self, x: Any, place: int) -> Any:
        if isinstance(x, SparseTensor) and not x.format.is_dense:
            array = x.values
        else:
            array = dense_array(x)
        if array.dtype != self.dtype:
            array = array.astype(self.dtype)
        text = self.alone[place]
        return array if text is None else jnp.einsum(text, array)


def contraction(subscripts: str, operands: Sequence[Any], out_format: OutFormat) -> tuple[Contraction, list[Any]]:
    """Check an einsum and state it for the primitive; an operand is sparse, or `out_format` is a SparseTensor.

    Returns the statement and the operands, all of them SparseTensors or jax arrays.

    Raises:
        SubscriptError, ShapeError, DTypeError: the operands do not fit the subscripts, or each other.
        NotYetSupportedError: a new pattern would have to be assembled.
    """
    if not isinstance(subscripts, str):
        raise SubscriptError(
            f"Expected einsum's subscripts as text such as 'ij,jk->ik' in front of the operands, but the first "
            f"argument is of type {type(subscripts).__name__}."
        )
    taken = [x if isinstance(x, SparseTensor) else as_array(x, subscripts) for x in operands]
    stored = stored_on([*taken, out_format])
    out = stored.pop() if isinstance(out_format, SparseTensor) else out_format
    if not isinstance(out, str | Format | StoredOn | None):
        raise FormatError(
            f"Expected out_format of '{subscripts}' to be 'dense', a format, a SparseTensor or None, but got "
            f"{type(out).__name__}."
        )
    signatures = tuple(signature(x, on) for x, on in zip(taken, stored, strict=False))
    return _stated(subscripts, signatures, out), taken


def dense_array(x: Any) -> Any:
    """An array; a SparseTensor whose levels are all dense is one in another order."""
    if not isinstance(x, SparseTensor):
        return x
    order = x.format.order
    stored = x.values.reshape([x.shape[d] for d in order])
    return jnp.transpose(stored, [order.index(d) for d in range(x.ndim)]) if x.ndim else stored


def as_array(x: Any, subscripts: str) -> jax.Array:
    """An operand that is no SparseTensor as an array of numbers. Raises DTypeError if it is none."""
    try:
        if type(x).__module__.startswith("jax.experimental.sparse"):
            raise TypeError("jax would slice it row by row")
        array = x if isinstance(x, jax.Array) else jnp.asarray(x)
    except (TypeError, ValueError) as error:
        raise DTypeError(
            f"Expected the operands of '{subscripts}' to be arrays or SparseTensors, but one is a {type(x).__module__}."
            f"{type(x).__name__}. Sparse arrays of other libraries are taken by jsparse.asarray."
        ) from error
    if not isinstance(array.dtype, np.dtype):  # random keys
        raise DTypeError(f"Expected the operands of '{subscripts}' to be numbers, but one has dtype {array.dtype}.")
    return array


def clear_cache() -> None:
    """Forget all statements."""
    _stated.cache_clear()


@lru_cache(maxsize=REMEMBERED)
def _stated(subscripts: str, operands: tuple[Signature, ...], out: str | Format | StoredOn | None) -> Contraction:
    return _Statement(subscripts, operands, out).contraction()


class _Statement:
    def __init__(self, text: str, operands: tuple[Signature, ...], out: str | Format | StoredOn | None) -> None:
        self.text, self.operands, self.out = text, operands, out
        self.assignment = parse_einsum(text, [len(x.shape) for x in operands])
        self.indices = [tuple(map(str, factor.indices)) for factor in self.assignment.factors]
        self.kept: tuple[IndexVar, ...] = self.assignment.target.variables()
        self.sizes = self._sizes()

    def contraction(self) -> Contraction:
        dtype = self._dtype()
        result = self._result_pattern()
        alone = [self._alone(n) for n in range(len(self.operands))]
        spec = self._spec([names for names, _ in alone], result)
        texts = tuple(text for _, text in alone) if spec else (None,) * len(alone)
        pattern = None if result is None else result.pattern
        return Contraction(
            self.text.replace(" ", ""), self.assignment, dtype, texts, spec, pattern, self._index_from(spec)
        )

    def _index_from(self, spec: Spec | None) -> tuple[int, ...]:
        """Whose index arrays each dynamic pattern's are (-1: `out_format`'s); of several, one that brings the most."""
        if spec is None:
            return ()
        lying = [(n, x.core, t.on) for n, (x, t) in enumerate(zip(self.operands, spec.factors, strict=True))]
        lying.append((-1, self.out.core if isinstance(self.out, StoredOn) else None, spec.result.on))
        return tuple(
            next(n for n, core, on in lying if on == number and core is not None and core.derived == walk.derived)
            for number, walk in enumerate(spec.walks)
            if not isinstance(walk.pattern, Pattern)
        )

    def _sizes(self) -> dict[IndexVar, int]:
        """The size of each index, the same wherever it stands."""
        found: dict[IndexVar, tuple[int, str]] = {}
        places = [(access, x.shape) for access, x in zip(self.assignment.factors, self.operands, strict=True)]
        if isinstance(self.out, StoredOn):
            places.append((self.assignment.target, self._checked_rank(self.out.pattern)))
        for access, shape in places:
            for dim, (index, size) in enumerate(zip(access.indices, shape, strict=True)):
                here = f"{size} in dimension {dim} of {_role(access, self.assignment)} of shape {shape}"
                known = found.setdefault(str(index), (int(size), here))
                if known[0] != size:
                    raise ShapeError(
                        f"Expected index '{index}' of '{self.text}' to have one size, but it is {known[1]} and {here}."
                    )
        return {var: size for var, (size, _) in found.items()}

    def _checked_rank(self, pattern: Pattern | DynamicType) -> tuple[int, ...]:
        if len(pattern.shape) != len(self.kept):
            raise ShapeError(
                f"Expected out_format of '{self.text}' to have rank {len(self.kept)}, an index of the result each "
                f"dimension, but it has shape {pattern.shape}."
            )
        return pattern.shape

    def _dtype(self) -> np.dtype:
        dtype = jnp.result_type(*(x.promoting for x in self.operands))
        if dtype.name not in SUPPORTED_DTYPES:
            came = ", ".join(x.dtype.name for x in self.operands)
            raise DTypeError(
                f"Expected the operands of '{self.text}' to promote to {' or '.join(SUPPORTED_DTYPES)}, but {came} "
                f"promote to {dtype}. Convert them with .astype."
            )
        return np.dtype(dtype)

    def _result_pattern(self) -> StoredOn | None:
        """Where the result is stored, by the expression and by which operands are sparse, never by their values."""
        if isinstance(self.out, StoredOn):
            return self.out
        if self.out == "dense" or (isinstance(self.out, Format) and self.out.is_dense):
            return None
        if self.out is not None:
            raise NotYetSupportedError(
                f"einsum does not assemble a result in format {Format.of(self.out, len(self.kept)).name} yet, as "
                f"'{self.text}' asks. Pass out_format='dense', or a SparseTensor on whose pattern to compute it."
            )
        several = (
            len(self._walks([(x.stored, names) for x, names in zip(self.operands, self.indices, strict=True)])) > 1
        )
        carried: set[IndexVar] = set()
        for x, indices in zip(self.operands, self.indices, strict=True):
            if x.stored is None:
                continue
            carried |= set(indices)
            if set(indices) <= set(self.kept):
                if several:
                    raise self._unassembled("its result is sparse, where several patterns meet")
                if len(set(indices)) < len(indices):
                    raise self._unassembled("the diagonal of a sparse operand has a new pattern")
                return self._extended(x.stored, indices)
        if len(self.kept) >= 2 and set(self.kept) <= carried:
            raise self._unassembled("its result is sparse and has a new pattern")
        return None

    def _unassembled(self, why: str) -> NotYetSupportedError:
        return NotYetSupportedError(
            f"'{self.text}' is not supported yet: {why}, which einsum does not assemble yet. Pass out_format='dense', "
            f"or a SparseTensor on whose pattern the result is computed."
        )

    def _extended(self, on: StoredOn, indices: tuple[IndexVar, ...]) -> StoredOn:
        """The operand's levels, then dense levels for the indices of the result that it lacks."""
        added = [v for v in self.kept if v not in indices]
        names = (*indices, *added)
        return on.extended([self.sizes[v] for v in added], [names.index(v) for v in self.kept])

    def _spec(self, dense_names: list[tuple[IndexVar, ...]], result: StoredOn | None) -> Spec | None:
        """The terms over the patterns that are walked; None if there is none."""
        on_core = [self._levels(x.stored, indices) for x, indices in zip(self.operands, self.indices, strict=True)]
        target = self._levels(result, self.kept)
        stored = [(x.stored, indices) for x, indices in zip(self.operands, self.indices, strict=True)]
        walks = self._walks([*stored, (result, self.kept)])
        if not walks:
            return None
        numbers = {key: n for n, key in enumerate(walks)}

        def term(dense: tuple[IndexVar, ...], on: tuple[Core, tuple[IndexVar, ...]] | None) -> Term:
            if on is None:
                return Term(dense)
            core, levels = on
            return Term((), numbers[core.pattern, core.group, levels[: core.ndim]], levels[core.ndim :])

        factors = tuple(term(names, on) for names, on in zip(dense_names, on_core, strict=True))
        sizes = tuple((v, self.sizes[v]) for v in self.assignment.variables())
        return Spec(factors, term(self.kept, target), tuple(walks.values()), sizes)

    def _walks(self, tensors: Sequence[tuple[StoredOn | None, tuple[IndexVar, ...]]]) -> dict[WalkKey, Walked]:
        """The patterns that are walked, once for every way; of tensors on one, with the most transposed indices."""
        walks: dict[WalkKey, Walked] = {}
        for core, levels in filter(None, (self._levels(on, indices) for on, indices in tensors)):
            walk = Walked(levels[: core.ndim], core.pattern, core.derived)
            key = (core.pattern, core.group, walk.indices)
            if len(walk.derived) >= len(walks.setdefault(key, walk).derived):
                walks[key] = walk
        return walks

    def _levels(self, on: StoredOn | None, indices: tuple[IndexVar, ...]) -> tuple[Core, tuple[IndexVar, ...]] | None:
        """The core of a tensor's pattern and the index of each level; None for a dense tensor."""
        core = None if on is None else on.core
        if on is None or core is None:
            return None
        return core, tuple(indices[level.dim] for level in on.pattern.format.levels)

    def _alone(self, place: int) -> tuple[tuple[IndexVar, ...], str | None]:
        """The indices of an operand, and if it is dense the einsum that sums those that only it carries and takes its
        diagonals before the product: Σ a·b = a·Σ b."""
        names = self.indices[place]
        if self.operands[place].core is not None:
            return names, None
        others = {v for n, other in enumerate(self.indices) if n != place for v in other} | set(self.kept)
        left = tuple(v for v in dict.fromkeys(names) if v in others)
        return left, None if left == names else f"{''.join(names)}->{''.join(left)}"


def _role(access: Access, assignment: Assignment) -> str:
    return "out_format" if access is assignment.target else f"operand {access.tensor}"
