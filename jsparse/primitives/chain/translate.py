"""From a jaxpr to a chain: the statements of one kernel, the patterns that they walk, and the operands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from string import ascii_lowercase
from typing import Any

from jsparse import _compat
from jsparse.base.dataclass import dataclass
from jsparse.base.memo import memoize_weakly
from jsparse.compiler.dtypes import accumulator
from jsparse.compiler.problem import Axis, Dense, Positions, Problem, TensorType
from jsparse.compiler.scalar import Number, accesses_of, replace_accesses
from jsparse.compiler.schedule.layout import AnyPattern, storage_type
from jsparse.compiler.schedule.search.shared_loops import in_shared_order
from jsparse.compiler.statement import Statement
from jsparse.notation import Access, IndexVar
from jsparse.primitives.chain.drafts import ChainError, Draft, Drafts, View, check_padding, node_of
from jsparse.primitives.chain.equations import Value, draft_equation, view_of
from jsparse.primitives.chain.expand import parts_of
from jsparse.primitives.chain.inline import inline_statements, parts_of_node
from jsparse.primitives.chain.recomputation import read
from jsparse.primitives.chain.variables import Node
from jsparse.primitives.spec import PatternAccess


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of the kernel: an argument of the chain, without axes of size 1.

    Attributes:
        number: the index of the argument.
        shape: the shape in which the operand is passed. The axis of slots and all later axes are merged into one.
    """

    number: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """A result of the chain.

    Attributes:
        number: the index of the kernel's result that holds the elements; None if an argument is passed through.
        argument: the index of the argument that is passed through, or None.
        axes: for each axis of the result, the axes of the kernel's result (or argument) that it merges; none for an
            axis along which elements repeat.
        shape: the shape of the result.
    """

    number: int | None
    argument: int | None
    axes: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Chain:
    """A chain of operations as one program of the compiler.

    Attributes:
        problem: the statements.
        walks: the patterns, in the order of the problem's patterns.
        stored: the patterns in the storage orders in which the problem walks them.
        operands: how each operand of the problem is passed.
        index: for each walk, the numbers of the chain's arguments that are its index arrays.
        shapes: the shape of each kernel result, with one axis for each node of the result.
        buffers: the shapes that the kernel writes. The axis of slots and all later axes are merged into one.
        results: how each result of the chain is made from the kernel's results.
    """

    problem: Problem
    walks: tuple[PatternAccess, ...]
    stored: tuple[AnyPattern, ...]
    operands: tuple[Operand, ...]
    index: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[int, ...], ...]
    buffers: tuple[tuple[int, ...], ...]
    results: tuple[Result, ...]

    @property
    def is_reordered(self) -> bool:
        """Whether loops walk a pattern in an order other than its storage order."""
        return any(used != walk.scheduler_pattern for used, walk in zip(self.stored, self.walks, strict=True))


@memoize_weakly
def translate_jaxpr(closed: Any) -> Chain | ChainError:
    """Translate a closed jaxpr without constants to a chain. Returns the chain, or the reason why there is none."""
    jaxpr, translation = closed.jaxpr, Translation()
    for v in jaxpr.invars:
        translation.take(v)
    try:
        for equation in jaxpr.eqns:
            translation.add(equation, parts_of(jaxpr, equation))
        return translation.chain(jaxpr.outvars)
    except ChainError as error:
        return error


class Translation:
    """A translation of equations to statements. Equations are added one by one. A copy can grow independently.

    Attributes:
        invars: the variables that are arguments.
    """

    def __init__(self) -> None:
        self.drafts, self.invars, self._env = Drafts(), list[Any](), dict[Any, Value]()

    def copy(self) -> Translation:
        """A copy that can grow independently of the original."""
        other = Translation()
        other.__dict__ = {name: part.copy() for name, part in vars(self).items()}
        return other

    def take(self, v: Any) -> None:
        """Make a variable an argument."""
        shape, name = v.aval.shape, f"A{len(self.invars)}"
        view = view_of(name, tuple(None if size == 1 else 0 for size in shape), shape, is_operand=True)
        self.invars.append(v)
        self.drafts.operands[name] = self._env[v] = view

    def add(self, equation: Any, parts: Any = None) -> None:
        """Add an equation. Variables that no earlier equation computes become arguments.

        `parts` is the expanded jaxpr of an equation that calls a function (`expand.parts_of`). Raises ChainError if the
        equation cannot be part of a chain.
        """
        arguments = dict.fromkeys(read(equation))
        for v in arguments:
            if v not in self._env:
                self.take(v)
        if parts is None:
            _draft(self.drafts, equation, self._env)
            return
        inside = dict(zip(parts.jaxpr.invars, (self._env[v] for v in arguments), strict=True))
        for part in parts.jaxpr.eqns:
            _draft(self.drafts, part, inside)
        self._env |= {v: _value(x, inside) for v, x in zip(equation.outvars, parts.jaxpr.outvars, strict=True)}

    def chain(self, outvars: Sequence[Any], is_whole: bool = True) -> Chain:
        """The chain that computes these variables. Raises ChainError if there is none.

        With `is_whole`, the results have to be 0 in the padding of dynamic patterns, and in storage order. With
        `is_whole` false neither is required, because equations that read the results may still be added.
        """
        if any(isinstance(v, _compat.Literal) or not isinstance(self._env[v], View) for v in outvars):
            raise ChainError("a result is a number")
        views = [view for v in outvars if isinstance(view := self._env[v], View)]
        written = list(dict.fromkeys(view.tensor for view in views if view.home is not None))
        check_padding(self.drafts, self.drafts.statements, written if is_whole else ())
        statements = inline_statements(self.drafts, written)
        if not statements:
            raise ChainError("nothing is computed")
        return _Named(self.drafts, self.invars, statements, written).chain(views, is_whole)


def _draft(drafts: Drafts, equation: Any, env: dict[Any, Value]) -> None:
    """Add the statements of an equation to the drafts, and its results to `env`."""
    results = draft_equation(drafts, equation, [_value(v, env) for v in equation.invars])
    env |= zip(equation.outvars, results, strict=True)


def _value(v: Any, env: dict[Any, Value]) -> Value:
    return Number(_compat.literal(v).item()) if isinstance(v, _compat.Literal) else env[v]


class _Named:
    """A builder that gives names to index variables and tensors, and makes the problem."""

    def __init__(
        self, drafts: Drafts, invars: Sequence[Any], statements: Sequence[Draft], written: Sequence[str]
    ) -> None:
        self.drafts, self.invars, self.statements, self.written = drafts, invars, statements, written
        self.walks = list(dict.fromkeys(n for draft in statements for n in draft.walks))
        self.names: dict[Node, IndexVar] = {}
        self.operands: dict[tuple[str, tuple[int | None, ...], tuple[int, ...]], TensorType] = {}
        for number in self.walks:
            walk = drafts.walks[number]
            for node in (*walk.lead, *walk.levels):
                self.name(node)

    def name(self, node: Node) -> IndexVar:
        """Name an index variable. Levels are named i, j, k, …"""
        representative = self.drafts.variables.find(node)
        if representative not in self.names:
            letters = "ijklmnpqrstuvwxyzabcdefgho"
            number = len(self.names)
            self.names[representative] = letters[number] if number < len(ascii_lowercase) else f"v{number}"
        return self.names[representative]

    def chain(self, views: Sequence[View], is_whole: bool) -> Chain:
        statements = tuple(self.statement(draft) for draft in self.statements)
        targets = tuple(self.target_type(draft) for draft in self.statements)
        results, variables = [draft for draft in self.statements if draft.tensor in self.written], self.drafts.variables
        order = [draft.tensor for draft in results]
        used = [self.drafts.walks[n] for n in self.walks]
        problem = Problem(
            statements,
            (*targets, *self.operands.values()),
            tuple(storage_type(walk.access.scheduler_pattern, len(walk.lead)) for walk in used),
            tuple((name, variables.sizes[node]) for node, name in self.names.items()),
            tuple(tuple(map(self.name, (*walk.lead, *walk.levels))) for walk in used),
            temporaries=tuple(draft.tensor for draft in self.statements if draft.tensor not in self.written),
        )
        problem, stored = in_shared_order(problem, [walk.access.scheduler_pattern for walk in used], is_whole)
        return Chain(
            problem,
            tuple(walk.access for walk in used),
            stored,
            tuple(
                Operand(int(name[1:]), _merge_slot_axes(sizes, [walk is not None for walk in on]))
                for name, on, sizes in self.operands
            ),
            tuple(tuple(int(name[1:]) for name in walk.index) for walk in used),
            tuple(map(self.shape, results)),
            tuple(
                _merge_slot_axes(self.shape(draft), [variables.slots(node) is not None for node in draft.nodes])
                for draft in results
            ),
            tuple(self.result(view, order) for view in views),
        )

    def result(self, view: View, order: Sequence[str]) -> Result:
        """Return how a result is made from a kernel's result.

        If the chain divided an axis to reshape it, the kernel's result has several axes, which are merged again.
        """
        if view.home is None:
            own = tuple(() if axis is None else (axis,) for axis in view.axes)
            return Result(None, int(view.tensor[1:]), own, view.shape)
        counts = [len(self.drafts.variables.leaves_of(node)) for node in view.home]
        ends = list(accumulate(counts, initial=0))
        axes = tuple(() if axis is None else tuple(range(ends[axis], ends[axis + 1])) for axis in view.axes)
        return Result(order.index(view.tensor), None, axes, view.shape)

    def shape(self, draft: Draft) -> tuple[int, ...]:
        return tuple(self.drafts.variables.sizes[node] for node in draft.nodes)

    def statement(self, draft: Draft) -> Statement:
        value = replace_accesses(draft.value, {access: self.access(access) for access in accesses_of(draft.value)})
        walks = tuple(self.walks.index(n) for n in draft.walks)
        return Statement(Access(draft.tensor, self.indices(draft.nodes)), value, draft.add, walks)

    def access(self, access: Access) -> Access:
        """The access with names in place of nodes. An operand that several walks read is passed once for each walk."""
        nodes = tuple(map(node_of, access.indices))
        tensor = access.tensor
        if tensor.startswith("A"):
            on = tuple(None if (s := self.drafts.variables.slots(n)) is None else s.walk for n in nodes)
            dtype = self.invars[int(tensor[1:])].aval.dtype.name
            key = (tensor, on, tuple(self.drafts.variables.sizes[n] for n in nodes))
            if key not in self.operands:
                again = any(name == tensor for name, *_ in self.operands)
                name = f"{tensor}_{len(self.operands)}" if again else tensor
                self.operands[key] = TensorType(name, dtype, self.axes(nodes))
            tensor = self.operands[key].name
        return Access(tensor, self.indices(nodes))

    def indices(self, nodes: Sequence[Node]) -> tuple[IndexVar, ...]:
        """Return the names of the index variables for which nodes stand."""
        return tuple(self.name(part) for node in nodes for part in parts_of_node(self.drafts, node))

    def axes(self, nodes: Sequence[Node]) -> tuple[Axis, ...]:
        """Return the storage axes of an array whose axes are these nodes."""
        axes: list[Axis] = []
        dim = 0
        for node in nodes:
            slots = self.drafts.variables.slots(node)
            if slots is None:
                axes.append(Dense(dim))
                dim += 1
                continue
            count = len(self.drafts.walks[slots.walk].levels)
            axes.append(Positions(self.walks.index(slots.walk), tuple(range(dim, dim + count))))
            axes += (Dense(dim + count + n) for n in range(len(slots.behind)))
            dim += count + len(slots.behind)
        return tuple(axes)

    def target_type(self, draft: Draft) -> TensorType:
        """The type of a target. A temporary has the dtype in which its statement computes, so it is not rounded."""
        dtype = draft.dtype if draft.tensor in self.written else accumulator(draft.dtype)
        return TensorType(draft.tensor, dtype, self.axes(draft.nodes))


def _merge_slot_axes(sizes: Sequence[int], are_slots: Sequence[bool]) -> tuple[int, ...]:
    """Merge the first axis over slots with all later axes, as kernels expect. Return the sizes of the new axes."""
    at = next((n for n, is_slots in enumerate(are_slots) if is_slots), len(sizes))
    return (*sizes[:at], *([prod(sizes[at:])] if at < len(sizes) else []))
