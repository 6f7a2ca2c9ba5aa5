"""`jsparse.einsum`: sums of products of sparse and dense tensors, in numpy's notation."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jsparse._compat import is_divided, mesh_of_trace
from jsparse.base.limits import MOST_BYTES, check_bytes, parse_nse
from jsparse.compiler.schedule import Schedule
from jsparse.compiler.semiring import PLUS_TIMES, Semiring, semiring_named
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import ShardingError, short_repr, shorten
from jsparse.formats import Pattern
from jsparse.notation import read_sublists
from jsparse.notation.einsum import check_count, parse_einsum
from jsparse.planning.dtypes import parse_preferred_dtype
from jsparse.planning.host.routes import by_kind
from jsparse.planning.plan import as_schedules
from jsparse.planning.planned import Operand, as_array, as_operand, plan_contraction, plan_einsum
from jsparse.planning.signature import OutFormat, is_sparse, pattern_of
from jsparse.tensor.dynamic_pattern import DynamicPattern
from jsparse.tensor.overriding import overriding_operand
from jsparse.tensor.sparse_tensor import PatternLike, SparseTensor, TensorLike


@by_kind
def einsum(
    subscripts: str | TensorLike | PatternLike,
    *operands: TensorLike | PatternLike | Sequence[int],
    out_format: OutFormat = None,
    nse: int | None = None,
    semiring: str | Semiring = "plus_times",
    schedule: Schedule | None = None,
    preferred_element_type: DTypeLike | None = None,
    dtype: DTypeLike | None = None,
    optimize: object = True,
    precision: str | jax.lax.Precision | None = None,
    out_sharding: jax.sharding.NamedSharding | jax.sharding.PartitionSpec | None = None,
    **refused: object,
) -> jax.Array | SparseTensor:
    """Compute a sum of products of sparse and dense tensors, in numpy's notation.

        >>> y = jsparse.einsum("ij,j->i", A, x)                  # A: SparseTensor of any format
        >>> C = jsparse.einsum("ij,kj->ik", A, B)                # two SparseTensors give a SparseTensor
        >>> S = jsparse.einsum("ik,jk->ij", Y, X, out_format=A)  # X and Y dense: computed on the pattern of A only
        >>> Z = jsparse.einsum("ij,jk->ik", A.pattern, X)        # a pattern: the sum of X's rows, unweighted
        >>> y = jsparse.einsum(A, [0, 1], x, [1], [0])           # the first line with lists of indices

    The operation is compiled for the operands' formats and sizes, differentiable in every operand (the values of a
    sparse one included), and works under `jax.jit`, `jax.grad`, `jax.jvp` and `jax.vmap`.

    Args:
        subscripts: a term of letters for each operand, separated by commas, and `->` with the indices of the result.
            Indices that are not in the result are summed. Without `->` the result has the indices that appear once,
            sorted.
            An index may appear twice in a term (a diagonal). A dimension of size 1 broadcasts. `...` stands for the
            other dimensions of an operand, which broadcast, and are summed if they are not in the result. Instead of
            this
            text, a list of indices (integers and Ellipsis) may follow each operand, with the result's list at the end.
        operands: any number of SparseTensors and arrays of floats, complex numbers, integers and bools, which promote
            as in `jnp.einsum`. BCOO, BCSR and scipy.sparse arrays are converted by `asarray`. An entry that is not
            stored contributes nothing, even if it meets NaN or Inf. A Pattern, static or dynamic, is a sparse operand
            without values: its entries count as 1 (the semiring's one), and it does not affect promotion. A product of
            nothing but patterns has the dtype `jnp.int_`, or bool with "or_and".
        out_format: "dense" for an array; a format for a SparseTensor in that format; "auto" for the format that
            `jsparse.choose_format` chooses, if the result is a matrix that is sparse by default, on a static pattern; a
            Pattern, or a SparseTensor, to compute on that pattern only. The pattern may lack dimensions of the result
            if the sizes show which ones; dense levels then store these (docs/concepts/results.md). By default the
            result is sparse if (a) some sparse operand has no summed index, or (b) the result has two indices or more,
            and sparse operands carry all of them. In case (a) with one pattern it has that operand's levels, followed
            by dense levels for the other indices. In case (b), or with several patterns, it has exactly the entries
            that the operands' entries reach, in an inferred format.
        nse: the capacity, in slots, of a sparse result whose pattern is only known at run time. It is required if the
            operands do not limit the number of entries, as in `ij,jk->ik`. For a static result it is an upper bound
            that is checked.
        semiring: the operations in place of sum and product: "min_plus" (shortest paths), "max_plus" (longest paths),
            "max_times", "or_and" (reachability, bit by bit; for integers and bool), or "plus_times". An empty reduction
            gives the semiring's zero: inf or the largest integer for min, -inf or the smallest for max. The gradient of
            a minimum or maximum is shared equally by the products that attain it (in each step, if the einsum is
            computed in steps). If all operands are dense, jax.numpy computes the reduction, over the whole iteration
            space.
        schedule: scheduling steps that the kernel must contain; the scheduler adds others
            (docs/internals/scheduling.md). An einsum with a schedule is one kernel, however many operands it has.
            Derivatives and batches are scheduled without it.
        preferred_element_type: the dtype of the result, by default the dtype to which the operands promote. Products
            are summed at least in that dtype (float16 and bfloat16: in float32), and rounded once.
        dtype: numpy's name for `preferred_element_type`.
        optimize, precision: accepted for code written for jax.numpy. `optimize` has no effect, because the order of
            products is always chosen by estimated cost; `precision` is passed on for products of dense arrays.
        out_sharding: how a dense result is divided over explicit axes of a mesh, as in `jnp.einsum`. It is required if
            an index that is summed is divided (docs/how_to/meshes.md).
        refused: other arguments of numpy's and jax.numpy's einsum, such as `out=`. They raise a TypeError that says
            what to write instead.

    Returns:
        An array of the result's shape, or a SparseTensor.

    Raises:
        SubscriptError: the subscripts do not follow the notation.
        ShapeError: ranks or sizes do not agree, or the sizes do not show which dimensions `out_format` lacks.
        DTypeError: the dtype of an operand or the preferred one is not supported, or the preferred one is real for
            complex operands.
        SemiringError: the semiring is unknown, or not defined for the operands' dtype.
        FormatError: out_format is not a format for the result's rank.
        PatternError: the result has more than `nse` entries, or nothing limits them: pass nse=.
        ScheduleError: a step of the schedule is illegal; the message says why.
        ShardingError: an operand is divided over explicit axes where each device needs all of it, or an index that is
            summed is divided and there is no out_sharding.
    """
    shown = f"'{shorten(subscripts)}'" if isinstance(subscripts, str) else "einsum of lists of indices"
    if refused:
        name = next(iter(refused))
        advice = f" {_REFUSED[name]}." if name in _REFUSED else ""
        raise TypeError(f"jsparse.einsum() got an unexpected keyword argument {name!r}.{advice}")
    if dtype is not None and preferred_element_type is not None:
        raise TypeError("jsparse.einsum takes dtype= or preferred_element_type=, which mean the same, but got both.")
    preferred_element_type = preferred_element_type if dtype is None else dtype
    nse = parse_nse(nse, shown)
    if (own := overriding_operand(operands)) is not None:
        options: dict[str, object] = {"out_format": out_format, "nse": nse, "schedule": schedule}
        options |= {"semiring": None if semiring == "plus_times" else semiring, "dtype": preferred_element_type}
        options |= {"out_sharding": out_sharding}
        return cast("jax.Array", own._call("einsum", (subscripts, *operands), options))
    items: list[Any] = [as_sparse_operand(x, shown, composed=True) for x in (subscripts, *operands)]
    dense = out_format is None and not any(map(is_sparse, items))
    if not (dense or isinstance(subscripts, str)):
        items = _with_text(items)
        shown = f"'{shorten(items[0])}'"
    schedules = as_schedules(schedule, shown)
    ring = semiring_named(semiring, str(shown).strip("'"))
    preferred = parse_preferred_dtype(shown, preferred_element_type)
    if dense and ring.is_linear and not schedules:
        return _of_arrays(tuple(items), preferred, str(shown).strip("'"), precision, out_sharding)
    text, *arrays = items if isinstance(items[0], str) else _with_text(items)
    result: Any = plan_einsum(text, arrays, out_format, nse, preferred, ring, schedules).run()
    if out_sharding is None:
        _check_summed(text, arrays, result)
        return cast("jax.Array", result)
    if isinstance(result, SparseTensor):
        raise ShardingError(
            f"Expected out_sharding=None for the sparse result of '{shorten(text)}', because every device holds all of "
            f"its values, but got {short_repr(out_sharding)}. Pass out_format='dense', or leave it out."
        )
    return cast("jax.Array", jax.sharding.reshard(result, out_sharding))


def contract(
    text: str,
    *operands: SparseTensor | Pattern | DynamicPattern | jax.Array,
    out_format: OutFormat = None,
    nse: int | None = None,
    semiring: str | Semiring = PLUS_TIMES,
    preferred_element_type: DTypeLike | None = None,
) -> Any:
    """Compute an einsum of operands that a public function has converted and checked: `einsum` without its intake.

    The leaves of tensors have been checked by `with_sound_leaves` or made by an operation, and arrays are jax arrays
    that were not deleted. Patterns are checked here: a static one is always valid.
    """
    ring, preferred = semiring_named(semiring, text), parse_preferred_dtype(text, preferred_element_type)
    if out_format is None and ring.is_linear and not any(map(is_sparse, operands)):
        return _of_arrays((text, *operands), preferred, text, None, None)
    tensors: list[Operand] = [
        x if isinstance(x, (SparseTensor, jax.Array)) else as_operand(x, f"operand {n} of '{text}'", text)
        for n, x in enumerate(operands)
    ]
    result = plan_contraction(text, tensors, out_format, nse, preferred, ring).run()
    _check_summed(text, tensors, result)
    return result


def _check_summed(text: str, operands: Sequence[Any], result: object) -> None:
    """Raise ShardingError if a summed index is divided over explicit axes: the result's division would be a guess."""
    if mesh_of_trace().empty or isinstance(result, SparseTensor):
        return
    divided = {n: x for n, x in enumerate(operands) if isinstance(x, jax.Array) and is_divided(jax.typeof(x))}
    if not divided:
        return
    assignment = parse_einsum(text, [np.shape(x) if isinstance(x, jax.Array) else x.shape for x in operands])
    patterns = {
        v for f, x in zip(assignment.factors, operands, strict=True) if pattern_of(x) is not None for v in f.variables()
    }
    for n, x in divided.items():
        for axis, (v, entry) in enumerate(
            zip(assignment.factors[n].indices, jax.typeof(x).sharding.spec, strict=False)
        ):
            if entry is not None and v not in assignment.target.indices and v not in patterns:
                raise ShardingError(
                    f"Expected out_sharding= for '{shorten(text)}', because axis {axis} of operand {n} is divided over "
                    f"{entry!r} and its index {v} is summed: the sums of all devices are added. Pass the sharding of "
                    "the result, such as out_sharding=jax.P()."
                )


_REFUSED = {
    "out": "JAX arrays are immutable. Use the result",
    "casting": "Dtypes promote as in jax.numpy. Cast operands with A.astype(dtype)",
    "order": "Pass out_format= for the format of the result",
}
"""Arguments of numpy's and jax.numpy's einsum that `jsparse.einsum` refuses, and the advice for each."""


def _with_text(given: Sequence[Any]) -> list[Any]:
    """Convert operands with lists of indices to subscripts as text, followed by the operands."""
    text, operands = read_sublists(tuple(given))
    return [text, *operands]


def _of_arrays(
    arguments: Sequence[Any],
    preferred: np.dtype | None,
    text: str,
    precision: str | jax.lax.Precision | None,
    out_sharding: Any,
) -> jax.Array:
    """Compute an einsum of dense arrays with jax.numpy. The indices are text or lists, as in `einsum`."""
    if isinstance(arguments[0], str):
        check_count(arguments[0], len(arguments) - 1)
    count = len(arguments)
    array_arguments = range(1, count) if isinstance(arguments[0], str) else range(0, count - count % 2, 2)
    taken = [as_array(x, text) if n in array_arguments else x for n, x in enumerate(arguments)]
    known = {n: x for n, x in enumerate(taken) if n not in array_arguments}

    def compute_einsum(*arrays: jax.Array) -> jax.Array:
        by_place = dict(zip(array_arguments, arrays, strict=True))
        ordered = ({**known, **by_place}[n] for n in range(count))
        return jnp.einsum(*ordered, preferred_element_type=preferred, precision=precision, out_sharding=out_sharding)

    arrays = [taken[n] for n in array_arguments]
    # Below this product of all sizes no result can be too large, so most calls skip the abstract evaluation.
    if prod(max(size, 1) for x in arrays for size in x.shape) > MOST_BYTES // 16:
        result = jax.eval_shape(compute_einsum, *arrays)
        check_bytes(result.shape, result.dtype, f"the result of '{text}'", "Sum over more indices.")
    return compute_einsum(*arrays)
