"""Rules that turn the equations of a jaxpr into drafts of statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import Any, TypeAlias, TypeVar

import jax
import numpy as np

from jsparse import _compat
from jsparse.base.memo import memoize
from jsparse.compiler.dtypes import DTYPES, accumulator, is_complex
from jsparse.compiler.scalar import Apply, Number, Scalar, product_of
from jsparse.compiler.semiring import Add
from jsparse.primitives.chain.drafts import ChainError, Draft, Drafts, View, read, vanishes
from jsparse.primitives.chain.variables import Node, Slots
from jsparse.primitives.elementwise_function import ELEMENTWISE
from jsparse.primitives.scalar_of import NoScalar, scalar_of
from jsparse.primitives.spec import ArrayAccess, Spec, split_by_counts

T = TypeVar("T")
Value: TypeAlias = View | Number
Rule: TypeAlias = Callable[[Drafts, Any, Sequence[Value]], Sequence[Value]]


def draft_equation(drafts: Drafts, equation: Any, operands: Sequence[Value]) -> Sequence[Value]:
    """Add an equation's statements to the drafts and return its results. Raises ChainError if no rule covers it."""
    name = equation.primitive.name
    rule = RULES.get(name) or (_elementwise if name in ELEMENTWISE else None)
    if rule is None:
        raise ChainError(f"kernels do not compute '{name}'")
    for v in (*equation.invars, *equation.outvars):
        _check_array(v.aval)
        drafts.dtypes.add(v.aval.dtype.name)
    return rule(drafts, equation, operands)


def _check_array(aval: Any) -> None:
    dtype = aval.dtype.name
    if dtype not in DTYPES:
        raise ChainError(f"kernels do not support {dtype}")
    if is_complex(dtype):
        raise ChainError("the parts of complex numbers are computed separately")
    if 0 in aval.shape:
        raise ChainError("an array is empty")


def _check_written(dtype: np.dtype) -> None:
    """Raise ChainError for narrow integers: they wrap after every operation, but a chain only wraps its results."""
    if dtype.kind in "iu" and accumulator(dtype.name) != dtype.name:
        raise ChainError(f"{dtype} wraps at every operation")


def view_of(tensor: str, nodes: tuple[Node | None, ...], shape: tuple[int, ...], is_operand: bool = False) -> View:
    """Return the view of an array that a tensor holds. The tensor has the array's axes, except axes of size 1."""
    axes: list[int | None] = []
    for node in nodes:
        axes.append(None if node is None else sum(axis is not None for axis in axes))
    home = None if is_operand else tuple(node for node in nodes if node is not None)
    return View(tensor, home, tuple(axes), shape)


def _add(
    drafts: Drafts,
    equation: Any,
    nodes: tuple[Node | None, ...],
    value: Scalar,
    add: Add = "+",
    walks: tuple[int, ...] = (),
) -> View:
    """Draft the statement that computes the result of an equation. Axes of size 1 have no node."""
    (out,) = equation.outvars
    _check_written(out.aval.dtype)
    view = view_of(drafts.fresh(), nodes, out.aval.shape)
    drafts.statements.append(Draft(view.tensor, view.home or (), value, out.aval.dtype.name, add, walks))
    return view


def _einsum(drafts: Drafts, equation: Any, operands: Sequence[Value]) -> Sequence[Value]:
    """Draft one statement: a sum of products over the walks of the spec."""
    spec: Spec = equation.params["spec"]
    if spec.mask is not None or spec.schedule is not None:
        raise ChainError("a product under a condition, or with a schedule, has its own kernel")
    if equation.outvars[0].aval.dtype == np.bool_:
        raise ChainError("a sum of bools is not a condition")
    counts = [len(spec.factors), *(walk.operand_count for walk in spec.walks)]
    index = split_by_counts(operands[counts[0] :], counts[1:])
    terms = _Terms(drafts, spec, [tuple(_whole(drafts, x) for x in arrays) for arrays in index])
    _check_numbers(drafts, operands[: len(spec.factors)])
    one = Number(spec.semiring.one(equation.outvars[0].aval.dtype.name))
    pairs = [(x, term) for x, term in zip(operands, spec.factors, strict=False) if x != one]
    if not pairs:
        raise ChainError("a product has only literal factors")
    factors = [x if isinstance(x, Number) else read(drafts, x, terms.nodes_of(term)) for x, term in pairs]
    value = product_of(spec.semiring.multiply, tuple(factors))
    sums = _add(drafts, equation, terms.nodes_of(spec.result), value, spec.semiring.add, terms.walks)
    if spec.result.on is not None:
        drafts.zeros.add(sums.tensor)
    return [sums]


class _Terms:
    """The nodes and walks of a chain that represent the index variables and patterns of a spec."""

    def __init__(self, drafts: Drafts, spec: Spec, index: Sequence[tuple[str, ...]]) -> None:
        self.drafts, self.spec, self.sizes = drafts, spec, dict(spec.sizes)
        self.nodes = nodes = {v: drafts.variables.new(size) for v, size in spec.sizes}
        drafts.variables.separate(node for v, node in nodes.items() if self.sizes[v] > 1)
        self.walks = tuple(
            drafts.walk(walk, arrays, tuple(nodes[v] for v in walk.indices), tuple(nodes[v] for v in walk.lead))
            for walk, arrays in zip(spec.walks, index, strict=True)
        )

    def nodes_of(self, term: ArrayAccess) -> tuple[Node | None, ...]:
        """The node of each axis of a term's array; None for axes of size 1."""
        before = tuple(self.nodes[v] if self.sizes[v] > 1 else None for v in term.before)
        if term.on is None:
            return before
        behind = tuple(self.nodes[v] for v in term.behind if self.sizes[v] > 1)
        size = self.spec.shape(term)[-1]
        if size == 1:
            raise ChainError("a pattern with one entry is not worth a kernel")
        levels = tuple(self.nodes[v] for v in self.spec.walks[term.on].indices)
        return (*before, self.drafts.variables.new(size, Slots(self.walks[term.on], levels, behind)))


def _whole(drafts: Drafts, value: Value) -> str:
    """Return the operand name of an index array. Raises ChainError if the chain computes or reshapes the array."""
    if not isinstance(value, View) or drafts.operands.get(value.tensor) != value:
        raise ChainError("index arrays are computed, or have another shape, in the chain")
    return value.tensor


def _check_numbers(drafts: Drafts, values: Sequence[Value]) -> None:
    """Raise ChainError if a value to multiply or sum is a condition: a bool that the chain computes."""
    conditions = {draft.tensor for draft in drafts.statements if draft.dtype == "bool"}
    if any(isinstance(x, View) and x.tensor in conditions for x in values):
        raise ChainError("conditions are multiplied or summed")


def _elementwise(drafts: Drafts, equation: Any, operands: Sequence[Value]) -> Sequence[Value]:
    """Draft one statement that computes each element of the result from one element of each operand."""
    params = tuple(sorted(equation.params.items()))
    closed = _of_scalars(equation.primitive, params, tuple(v.aval.dtype for v in equation.invars))
    return [_pointwise(drafts, equation, closed, operands)]


@memoize(maxsize=1024)
def _of_scalars(primitive: Any, params: Any, dtypes: tuple[np.dtype, ...]) -> Any:
    """Return the closed jaxpr of an elementwise operation on scalars."""
    avals = [jax.ShapeDtypeStruct((), dtype) for dtype in dtypes]
    return jax.make_jaxpr(lambda *x: primitive.bind(*x, **dict(params)))(*avals)


def _map(drafts: Drafts, equation: Any, operands: Sequence[Value]) -> Sequence[Value]:
    """Draft one statement for the primitive `map`: an elementwise function of the values on a pattern.

    Kernels do not visit padding, so the result is 0 there.
    """
    function = equation.params["function"]
    result = _pointwise(drafts, equation, function.jaxpr, operands[: function.arity])
    if equation.params["padding"] is not None:
        drafts.maps.add(result.tensor)
        drafts.zeros.add(result.tensor)
    return [result]


def _pointwise(drafts: Drafts, equation: Any, closed: Any, operands: Sequence[Value]) -> View:
    (out,) = equation.outvars
    shape = out.aval.shape
    _check_arithmetic(closed, out.aval.dtype)
    views = [x for x in operands if isinstance(x, View)]
    nodes = tuple(_axis(drafts, views, n, size) for n, size in enumerate(shape))
    drafts.variables.separate(node for node in nodes if node is not None)

    def argument(x: Value) -> Scalar:
        if isinstance(x, Number):
            return x
        axes = x.axes if x.shape else (None,) * len(shape)
        return read(drafts, View(x.tensor, x.home, axes, x.shape), nodes)

    value = scalar_of(closed, [argument(x) for x in operands])
    if isinstance(value, NoScalar):
        raise ChainError(value.reason)
    result = _add(drafts, equation, nodes, value)
    if vanishes(value, drafts.zeros):
        drafts.zeros.add(result.tensor)
    return result


def _check_arithmetic(closed: Any, result: np.dtype) -> None:
    """Raise ChainError unless a statement can compute a function in a single dtype.

    A statement computes all numbers in the widest dtype, other than bool, that it reads or writes. Integers may not be
    compared: the condition may become part of another statement, which computes in a different dtype.
    """
    ends = {v.aval.dtype for v in closed.jaxpr.invars} | {result}
    numbers = {dtype for dtype in _dtypes(closed.jaxpr, [True] * len(closed.in_avals)) | ends if dtype != np.bool_}
    floats = {dtype for dtype in numbers if jax.numpy.issubdtype(dtype, np.floating)}
    if floats and (numbers - floats or {accumulator(x.name) for x in floats} - {accumulator(x.name) for x in ends}):
        raise ChainError(f"a function computes in {', '.join(sorted(x.name for x in numbers))}")
    if numbers - floats and (len(numbers) > 1 or result == np.bool_):
        raise ChainError("integers are compared, or converted")


def _dtypes(jaxpr: Any, varies: Sequence[bool]) -> set[Any]:
    """The dtypes of the varying arguments, and of all values computed from them. Other arguments are constants."""
    varying = {v for v, is_varying in zip(jaxpr.invars, varies, strict=True) if is_varying}
    dtypes = {v.aval.dtype for v in varying}
    for equation in jaxpr.eqns:
        reads = [not isinstance(v, _compat.Literal) and v in varying for v in equation.invars]
        if any(reads):
            varying.update(equation.outvars)
            dtypes |= {v.aval.dtype for v in equation.outvars}
            for inner in _compat.jaxprs_in(equation.params):
                parameters = inner.jaxpr.invars
                dtypes |= _dtypes(inner.jaxpr, reads if len(parameters) == len(reads) else [True] * len(parameters))
    return dtypes


def _axis(drafts: Drafts, views: Sequence[View], number: int, size: int) -> Node | None:
    """Return the node (index variable) of an axis of an elementwise result; None for an axis of size 1.

    If the chain itself computes an operand that varies along this axis, the operand's node is returned. Otherwise the
    node is new.
    """
    if size == 1:
        return None
    for view in views:
        axis = view.axes[number] if view.shape else None
        if axis is not None and view.home is not None:
            return view.home[axis]
    return drafts.variables.new(size)


def _same(drafts: Drafts, equation: Any, operands: Sequence[Value]) -> Sequence[Value]:
    return operands


def _broadcast(drafts: Drafts, equation: Any, operands: Sequence[Value]) -> Sequence[Value]:
    """Return a view of the same elements, repeated along new axes and along axes of size 1."""
    (x,) = operands
    if isinstance(x, Number):
        return [x]
    shape, at = equation.params["shape"], equation.params["broadcast_dimensions"]
    axes: list[int | None] = [None] * len(shape)
    for axis, number in zip(x.axes, at, strict=True):
        axes[number] = axis
    return [View(x.tensor, x.home, tuple(axes), tuple(shape))]


def _reshape(drafts: Drafts, equation: Any, operands: Sequence[Value]) -> Sequence[Value]:
    """Return a view of the same elements: axes of size 1 are added or removed, and axes are merged or divided."""
    (x,) = operands
    return [x if isinstance(x, Number) else reshape_view(drafts, x, equation.outvars[0].aval.shape)]


def _transpose(drafts: Drafts, equation: Any, operands: Sequence[Value]) -> Sequence[Value]:
    (x,) = operands
    assert isinstance(x, View)
    order = equation.params["permutation"]
    return [View(x.tensor, x.home, tuple(x.axes[n] for n in order), tuple(x.shape[n] for n in order))]


def _reduction(drafts: Drafts, equation: Any, operands: Sequence[Value]) -> Sequence[Value]:
    """Draft one statement that reduces an array over some of its axes by a sum, a maximum or a minimum."""
    (x,) = operands
    add: Any = {"reduce_sum": "+", "reduce_max": "max", "reduce_min": "min"}[equation.primitive.name]
    if not isinstance(x, View) or any(axis is None and size > 1 for axis, size in zip(x.axes, x.shape, strict=True)):
        raise ChainError("repeated elements are reduced")
    _check_numbers(drafts, operands)
    nodes = tuple(_axis(drafts, [x], n, size) for n, size in enumerate(x.shape))
    drafts.variables.separate(node for node in nodes if node is not None)
    value = read(drafts, x, nodes)
    if any(node is not None and drafts.variables.slots(node) is not None for node in nodes):
        raise ChainError("all stored entries are reduced to a number")
    kept = tuple(node for n, node in enumerate(nodes) if n not in equation.params["axes"])
    return [_add(drafts, equation, kept, value, add)]


def _dot(drafts: Drafts, equation: Any, operands: Sequence[Value]) -> Sequence[Value]:
    """Draft one statement: a product of dense arrays."""
    x, y = operands
    if not (isinstance(x, View) and isinstance(y, View)):
        raise ChainError("a product has a literal factor")
    _check_numbers(drafts, operands)
    new = drafts.variables.new
    of_x: list[Node | None] = [new(size) if size > 1 else None for size in x.shape]
    of_y: list[Node | None] = [new(size) if size > 1 else None for size in y.shape]
    target, _ = match_axes(of_x, of_y, equation.params)
    drafts.variables.separate({node for node in (*of_x, *of_y) if node is not None})
    factors = (read(drafts, x, tuple(of_x)), read(drafts, y, tuple(of_y)))
    return [_add(drafts, equation, target, Apply("*", factors))]


def match_axes(of_x: Sequence[T], of_y: list[T], params: Mapping[str, Any]) -> tuple[tuple[T, ...], list[T]]:
    """Give the axes of a `dot_general`'s second operand what is known of the axes of the first that they meet.

    Return what is known of the axes of the result, and of the axes that are summed.
    """
    ((left, right), (left_batch, right_batch)) = params["dimension_numbers"]
    for a, b in zip((*left, *left_batch), (*right, *right_batch), strict=True):
        of_y[b] = of_x[a]
    kept = [x for n, x in enumerate(of_x) if n not in (*left, *left_batch)]
    kept += [x for n, x in enumerate(of_y) if n not in (*right, *right_batch)]
    return (*(of_x[n] for n in left_batch), *kept), [of_x[n] for n in left]


VIEWS: dict[str, Rule] = {
    "name": _same,
    "copy": _same,
    "copy_p": _same,
    "stop_gradient": _same,
    "optimization_barrier": _same,
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "squeeze": _reshape,
    "expand_dims": _reshape,
    "transpose": _transpose,
}
"""The rules of primitives that compute nothing: their results are views of the operand's elements."""

RULES: dict[str, Rule] = {
    **VIEWS,
    "jsparse_einsum": _einsum,
    "jsparse_map": _map,
    "add_any": _elementwise,
    "reduce_sum": _reduction,
    "reduce_max": _reduction,
    "reduce_min": _reduction,
    "dot_general": _dot,
}
"""The rule of each primitive. Each equation of an elementwise primitive that is not listed makes one statement."""


def reshape_view(drafts: Drafts, x: View, shape: tuple[int, ...]) -> View:
    """The view of the same elements in another shape. Raises ChainError unless axes are merged or divided.

    An operand is passed to the kernel in the shape in which it is read, so its tensor gets the new axes. A tensor that
    the chain computes keeps its axes; their nodes are merged or divided.
    """
    kept = [n for n, size in enumerate(x.shape) if size != 1]
    wanted = [n for n, size in enumerate(shape) if size != 1]
    nodes: dict[int, Sequence[Node]] = {}  # axis of the tensor → the nodes that replace it
    places: list[tuple[int, int] | None] = [None] * len(shape)  # axis of the tensor, and the number of a node there
    for before, after in pair_axes([x.shape[n] for n in kept], [shape[n] for n in wanted]):
        axes = [axis for n in before if (axis := x.axes[kept[n]]) is not None]
        if not axes:
            continue  # elements are repeated along all of them
        if len(axes) < len(before) or axes != list(range(axes[0], axes[0] + len(axes))):
            raise ChainError(f"axes that are not adjacent are reshaped from {x.shape} to {shape}")
        nodes |= dict.fromkeys(axes, ()) | {axes[0]: _in_place(drafts, x, axes, [shape[wanted[n]] for n in after])}
        for number, n in enumerate(after):
            places[wanted[n]] = axes[0], number
    count = max(nodes, default=-1) + 1 if x.home is None else len(x.home)
    if len(nodes) != count:
        raise ChainError("part of an array is reshaped")
    begins = list(accumulate((len(nodes[axis]) for axis in range(count)), initial=0))
    home = None if x.home is None else tuple(node for axis in range(count) for node in nodes[axis])
    return View(x.tensor, home, tuple(None if at is None else begins[at[0]] + at[1] for at in places), shape)


def _in_place(drafts: Drafts, x: View, axes: Sequence[int], sizes: Sequence[int]) -> Sequence[Node]:
    """Return nodes of these sizes, which replace axes of a tensor that are merged or divided.

    An operand has no nodes of its own. So its nodes are only counted, and the result is a range of that length.
    """
    if len(axes) > 1 and len(sizes) > 1:
        raise ChainError(f"axes are both divided and merged, from {x.shape}")
    if x.home is None:
        return range(len(sizes))
    nodes = [x.home[axis] for axis in axes]
    if len(nodes) == len(sizes):
        return nodes
    if any(drafts.variables.slots(node) is not None for node in nodes):
        raise ChainError("values on a pattern are reshaped")
    nodes_of_axis = [drafts.variables.merge(nodes)] if len(sizes) == 1 else drafts.variables.divide(nodes[0], sizes)
    if nodes_of_axis is None:
        raise ChainError(f"an axis is divided into {tuple(sizes)}, but was divided differently before")
    return nodes_of_axis


def pair_axes(given: Sequence[int], wanted: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Pair neighbouring axes of the shape `given` with axes of `wanted` that have equally many elements together.

    Yields the two lists of axes of each pair. Each list is as short as possible.
    """
    i = j = 0
    while i < len(given):
        before, after = [i], [j]
        i, j = i + 1, j + 1
        while (a := prod(given[n] for n in before)) != (b := prod(wanted[n] for n in after)):
            if a < b:
                before.append(i)
                i += 1
            else:
                after.append(j)
                j += 1
        yield before, after
