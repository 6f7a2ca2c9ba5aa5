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
from jsparse.primitives.spec import Spec, Term
from jsparse.signature import Core, Signature, StoredOn, signature, stored_on
from jsparse.tensor import SparseTensor

__all__ = ["Contraction", "OutFormat", "as_array", "clear_cache", "contraction", "dense_array"]

SUPPORTED_DTYPES = ("float32", "float64", "int32", "int64")
REMEMBERED = 256  # statements; each holds its patterns

OutFormat: TypeAlias = str | Format | SparseTensor | None


@dataclass(frozen=True, slots=True)
class Contraction:
    """An einsum that is checked.

    Attributes:
        dtype: of the result, to which all operands are converted.
        alone: for each operand the einsum that sums what only it carries, None if there is nothing to do.
        spec: what the primitive computes; None if no level is left to walk and dense arrays do.
        result: the pattern of a sparse result, None for a dense one.
        index_from: the operand (-1: `out_format`) whose dynamic pattern is walked; None if that is static.
    """

    subscripts: str
    assignment: Assignment
    dtype: np.dtype
    alone: tuple[str | None, ...]
    spec: Spec | None
    result: Pattern | DynamicType | None
    index_from: int | None = None

    def arrays(self, operands: Sequence[Any]) -> list[Any]:
        """The operands as the primitive (or the dense einsum) takes them."""
        return [self._array(x, n) for n, x in enumerate(operands)]

    def walked(self, operands: Sequence[Any], out_format: OutFormat) -> DynamicPattern | None:
        """The dynamic pattern that is walked, if it is one."""
        if self.index_from is None:
            return None
        tensor = out_format if self.index_from < 0 else operands[self.index_from]
        assert isinstance(tensor, SparseTensor)
        return tensor.pattern if isinstance(tensor.pattern, DynamicPattern) else None

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
        NotYetSupportedError: patterns would have to be merged, or a new pattern assembled.
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

    def _index_from(self, spec: Spec | None) -> int | None:
        """Whose index arrays are walked; of several, one that brings its transposed index."""
        if spec is None or isinstance(spec.pattern, Pattern):
            return None
        cores = [(n, x.core) for n, x in enumerate(self.operands)]
        cores.append((-1, self.out.core if isinstance(self.out, StoredOn) else None))
        return next(n for n, core in cores if core is not None and core.derived == spec.derived)

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
        carried: set[IndexVar] = set()
        for x, indices in zip(self.operands, self.indices, strict=True):
            if x.stored is None:
                continue
            carried |= set(indices)
            if set(indices) <= set(self.kept):
                if len(set(indices)) < len(indices):
                    raise self._unassembled("the diagonal of a sparse operand has a new pattern")
                return self._extended(x.stored, indices)
        if len(self.kept) >= 2 and set(self.kept) <= carried:
            if len({(x.core.pattern, x.core.group) for x in self.operands if x.core}) > 1:
                raise self._unmerged()
            raise self._unassembled("its result is sparse and has a new pattern")
        return None

    def _unassembled(self, why: str) -> NotYetSupportedError:
        return NotYetSupportedError(
            f"'{self.text}' is not supported yet: {why}, which einsum does not assemble yet. Pass out_format='dense', "
            f"or a SparseTensor on whose pattern the result is computed."
        )

    def _unmerged(self) -> NotYetSupportedError:
        return NotYetSupportedError(
            f"'{self.text}' has sparse tensors on different patterns, which einsum does not merge yet. Make all "
            f"but one of them dense with .todense()."
        )

    def _extended(self, on: StoredOn, indices: tuple[IndexVar, ...]) -> StoredOn:
        """The operand's levels, then dense levels for the indices of the result that it lacks."""
        added = [v for v in self.kept if v not in indices]
        names = (*indices, *added)
        return on.extended([self.sizes[v] for v in added], [names.index(v) for v in self.kept])

    def _spec(self, dense_names: list[tuple[IndexVar, ...]], result: StoredOn | None) -> Spec | None:
        """The terms over the one pattern that is walked; None if there is no such pattern."""
        on_core = [self._levels(x.stored, indices) for x, indices in zip(self.operands, self.indices, strict=True)]
        target = self._levels(result, self.kept)
        walked = [(core, levels[: core.ndim]) for core, levels in filter(None, (*on_core, target))]
        if len({(core.pattern, core.group, walk) for core, walk in walked}) > 1:
            raise self._unmerged()
        if not walked:
            return None
        core, walk = max(walked, key=lambda found: len(found[0].derived))
        terms = [
            Term(names) if on is None else Term((), True, on[1][core.ndim :])
            for names, on in zip(dense_names, on_core, strict=True)
        ]
        out = Term(self.kept) if target is None else Term((), True, target[1][core.ndim :])
        sizes = tuple((v, self.sizes[v]) for v in self.assignment.variables())
        return Spec(tuple(terms), out, walk, core.pattern, sizes, core.derived)

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
