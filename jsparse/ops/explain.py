"""`jsparse.explain`: the plans and the generated code of an einsum, of a statement, or of a whole function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, overload

import jax
from jax.typing import DTypeLike

from jsparse.base.limits import parse_nse
from jsparse.compiler.schedule import Schedule
from jsparse.compiler.semiring import Semiring, semiring_named
from jsparse.convert.creation import as_sparse_operand
from jsparse.errors import SubscriptError, short_repr, shorten
from jsparse.notation import read_sublists
from jsparse.ops.einsum import einsum
from jsparse.ops.evaluate import evaluate as evaluated
from jsparse.ops.evaluate import parse_cached, plan_sum
from jsparse.ops.explanation.kernel import ExplainedKernel
from jsparse.ops.explanation.program import ProgramExplanation, program_explainer
from jsparse.ops.explanation.statement import Explanation, explain_plan
from jsparse.planning.dtypes import parse_preferred_dtype
from jsparse.planning.plan import as_schedules
from jsparse.planning.planned import plan_einsum
from jsparse.planning.signature import OutFormat, is_sparse
from jsparse.tensor.overriding import overriding_operand
from jsparse.tensor.sparse_tensor import PatternLike, SparseTensor, TensorLike

__all__ = ["ExplainedKernel", "Explanation", "ProgramExplanation", "explain"]


@overload
def explain(subscripts: Callable[..., Any], /) -> Callable[..., ProgramExplanation]: ...


@overload
def explain(
    subscripts: str | TensorLike | PatternLike,
    *operands: TensorLike | PatternLike | Sequence[int],
    out_format: OutFormat = None,
    nse: int | None = None,
    shape: tuple[int, ...] | None = None,
    semiring: str | Semiring = "plus_times",
    schedule: Schedule | Sequence[Schedule | None] | None = None,
    preferred_element_type: DTypeLike | None = None,
    **tensors: TensorLike | PatternLike,
) -> Explanation | ProgramExplanation: ...


def explain(
    subscripts: str | TensorLike | PatternLike | Callable[..., Any],
    *operands: TensorLike | PatternLike | Sequence[int],
    out_format: OutFormat = None,
    nse: int | None = None,
    shape: tuple[int, ...] | None = None,
    semiring: str | Semiring = "plus_times",
    schedule: Schedule | Sequence[Schedule | None] | None = None,
    preferred_element_type: DTypeLike | None = None,
    **tensors: TensorLike | PatternLike,
) -> Explanation | ProgramExplanation | Callable[..., ProgramExplanation]:
    """Explain how `einsum` (or, with named tensors, `evaluate`) computes these arguments. Nothing is computed.

    The explanation shows formats, steps, the loop order with its cost, tiles, the numbers of operations and of bytes
    moved, the loop nest, the kernel and LLVM IR. Print it, read the attributes of one stage, or show it in a notebook.
    A statement with functions is several operations, so it is explained like a Python function.

        >>> print(jsparse.explain("ij,jk->ik", A, X).summary)
        >>> jsparse.explain("y[i] = b[i] - A[i,j] * x[j]", b=b, A=A, x=x).llvm

    For a Python function, every sparse operation is explained, also inside of `jit`, `scan`, `while_loop`, `cond`,
    derivatives and `vmap`. The function is traced, so arguments may be `jax.ShapeDtypeStruct`s:

        >>> print(jsparse.explain(loss)(params, A, X))
        >>> jsparse.explain(jax.grad(loss))(params, A, X).kernels[0].schedule

    Raises the errors of `einsum` and `evaluate`, and SubscriptError for a first argument that is neither text nor an
    operand nor a function. `explain(f)(*args)` also raises what f raises.
    """
    if callable(subscripts):
        if operands or tensors:
            raise SubscriptError(
                f"Expected only a function, as in explain(f)(x), but got {len(operands) + len(tensors)} arguments "
                f"after {short_repr(subscripts)}. Pass them to the result of explain."
            )
        return program_explainer(subscripts)
    if overriding_operand(operands) is not None:
        text = str(subscripts)
        function: Callable[..., Any] = partial(einsum, text)
        function.__name__ = f"'{shorten(text)}'"
        return program_explainer(function)(*operands)
    schedules = as_schedules(schedule, "explain")
    preferred = parse_preferred_dtype("explain", preferred_element_type)
    nse = parse_nse(nse, "explain")
    subscripts, *rest = (as_sparse_operand(x, "explain", composed=True) for x in (subscripts, *operands))
    operands = tuple(rest)
    if not isinstance(subscripts, str) and (tensors or not operands):
        raise SubscriptError(
            f"Expected subscripts and operands as in explain('ij,jk->ik', A, X), a statement and named tensors, or a "
            f"function as in explain(f)(x), but got {short_repr(subscripts)}."
        )
    if tensors and isinstance(subscripts, str) and parse_cached(subscripts).calls:
        options = {"preferred_element_type": preferred, "semiring": semiring, "schedule": schedule}
        return _explain_calls(subscripts, tensors, {"shape": shape, "out_format": out_format, "nse": nse, **options})
    if tensors:
        planned = plan_sum(subscripts, tensors, shape, out_format, nse, preferred, semiring, schedules)
        return explain_plan(subscripts, planned, tensors)
    if not isinstance(subscripts, str):
        subscripts, operands = read_sublists((subscripts, *operands))
    ring = semiring_named(semiring, subscripts)
    if ring.is_linear and out_format is None and not schedules and not any(map(is_sparse, operands)):
        return Explanation(subscripts, ())
    return explain_plan(subscripts, plan_einsum(subscripts, operands, out_format, nse, preferred, ring, schedules))


def _explain_calls(text: str, tensors: dict[str, Any], options: dict[str, Any]) -> ProgramExplanation:
    """Explain a statement with calls as a program of several operations. Index tables are not traced."""
    statement = parse_cached(text)
    nested = (inner for access in (statement.target, *statement.read()) for inner in access.indirections())
    tables = {inner.tensor: tensors[inner.tensor] for inner in nested if inner.tensor in tensors}

    def evaluate(**traced: Any) -> SparseTensor | jax.Array:
        return evaluated(text, **options, **tables, **traced)

    evaluate.__name__ = text
    return program_explainer(evaluate)(**{name: x for name, x in tensors.items() if name not in tables})
