"""From a jaxpr to a chain: the statements of one kernel, the patterns that they walk, and the operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

from jsparse import _compat
from jsparse.base.memo import remembered
from jsparse.compiler.dtypes import accumulator
from jsparse.compiler.problem import Axis, Dense, Positions, Problem, TensorType
from jsparse.compiler.scalar import Number, Scalar, accesses_of, replaced
from jsparse.compiler.schedule.stored import pattern_type
from jsparse.compiler.statement import Statement
from jsparse.notation import Access, IndexVar
from jsparse.primitives.chain.drafts import ChainError, Draft, Drafts, View, node_of
from jsparse.primitives.chain.equations import Value, draft_equation, view_of
from jsparse.primitives.chain.inline import inlined
from jsparse.primitives.chain.padding import check_padding
from jsparse.primitives.chain.variables import Node
from jsparse.primitives.spec import PatternAccess

__all__ = ["Chain", "Operand", "Result", "translated"]


@dataclass(frozen=True, slots=True)
class Operand:
    """What is passed for an operand of the kernel: an argument of the chain, without axes of size 1.

    Attributes:
        number: the number of the argument.
        shape: the shape that it is passed in.
    """

    number: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """A result of the chain.

    Attributes:
        number: the number of the kernel's result that has its elements; None for an argument that is passed through.
        argument: the number of that argument.
        axes: for each axis of the result the axis of these elements; None for one along which they repeat.
        shape: the shape of the result.
    """

    number: int | None
    argument: int | None
    axes: tuple[int | None, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Chain:
    """A chain of operations as one program of the compiler.

    Attributes:
        problem: the statements.
        walks: the patterns, in the numbering of the problem.
        operands: what is passed for each operand of the problem.
        index: for each walk, the numbers of the arguments that are its index arrays.
        shapes: the shape of each of the kernel's results.
        results: what the results of the chain are made of.
    """

    problem: Problem
    walks: tuple[PatternAccess, ...]
    operands: tuple[Operand, ...]
    index: tuple[tuple[int, ...], ...]
    shapes: tuple[tuple[int, ...], ...]
    results: tuple[Result, ...]


@remembered(maxsize=256)
def translated(closed: Any) -> Chain | ChainError:
    """The chain of a closed jaxpr without constants, or the reason why it is none."""
    try:
        return _translated(closed.jaxpr)
    except ChainError as error:
        return error


def _translated(jaxpr: Any) -> Chain:
    drafts, env = Drafts(), dict[Any, Value]()
    for n, v in enumerate(jaxpr.invars):
        shape = v.aval.shape
        axes = view_of(f"A{n}", tuple(None if size == 1 else 0 for size in shape), shape, is_operand=True)
        env[v] = axes
    for equation in jaxpr.eqns:
        operands = [
            Number(_compat.literal(v).item()) if isinstance(v, _compat.Literal) else env[v] for v in equation.invars
        ]
        env |= dict(zip(equation.outvars, draft_equation(drafts, equation, operands), strict=True))
    values = [None if isinstance(v, _compat.Literal) else env[v] for v in jaxpr.outvars]
    views = [x for x in values if isinstance(x, View)]
    if len(views) < len(values):
        raise ChainError("a result is a number")
    written = list(dict.fromkeys(view.tensor for view in views if view.home is not None))
    check_padding(drafts, drafts.statements, written)
    statements = inlined(drafts, written)
    if not statements:
        raise ChainError("nothing is computed")
    return _Named(drafts, jaxpr, statements, written).chain(views)


class _Named:
    """Gives names to index variables and tensors, and makes the problem."""

    def __init__(self, drafts: Drafts, jaxpr: Any, statements: Sequence[Draft], written: Sequence[str]) -> None:
        self.drafts, self.jaxpr, self.statements, self.written = drafts, jaxpr, statements, written
        self.walks = list(dict.fromkeys(n for draft in statements for n in draft.walks))
        self.names: dict[Node, IndexVar] = {}
        self.operands: dict[tuple[str, tuple[int | None, ...]], TensorType] = {}
        for number in self.walks:
            walk = drafts.walks[number]
            for node in (*walk.lead, *walk.levels):
                self.name(node)

    def name(self, node: Node) -> IndexVar:
        """The name of an index variable: levels get i, j, k, …"""
        found = self.drafts.variables.find(node)
        if found not in self.names:
            letters = "ijklmnpqrstuvwxyzabcdefgho"
            number = len(self.names)
            self.names[found] = letters[number] if number < len(ascii_lowercase) else f"v{number}"
        return self.names[found]

    def chain(self, views: Sequence[View]) -> Chain:
        statements = tuple(self.statement(draft) for draft in self.statements)
        targets = tuple(self.target_type(draft) for draft in self.statements)
        order = [draft.tensor for draft in self.statements if draft.tensor in self.written]
        used = [self.drafts.walks[n] for n in self.walks]
        problem = Problem(
            statements,
            (*targets, *self.operands.values()),
            tuple(pattern_type(walk.access.stored, len(walk.lead)) for walk in used),
            tuple((name, self.drafts.variables.sizes[node]) for node, name in self.names.items()),
            tuple(tuple(map(self.name, (*walk.lead, *walk.levels))) for walk in used),
            temporaries=tuple(draft.tensor for draft in self.statements if draft.tensor not in self.written),
        )
        numbers = {v: n for n, v in enumerate(self.jaxpr.invars)}
        return Chain(
            problem,
            tuple(walk.access for walk in used),
            tuple(self.operand(name) for name, _ in self.operands),
            tuple(tuple(numbers[v] for v in walk.index) for walk in used),
            tuple(self.shape(draft) for draft in self.statements if draft.tensor in self.written),
            tuple(self.result(view, order) for view in views),
        )

    def operand(self, name: str) -> Operand:
        number = int(name[1:])
        return Operand(number, tuple(size for size in self.jaxpr.invars[number].aval.shape if size != 1))

    def result(self, view: View, order: Sequence[str]) -> Result:
        if view.home is None:
            return Result(None, int(view.tensor[1:]), view.axes, view.shape)
        return Result(order.index(view.tensor), None, view.axes, view.shape)

    def shape(self, draft: Draft) -> tuple[int, ...]:
        return tuple(self.drafts.variables.sizes[node] for node in draft.nodes)

    def statement(self, draft: Draft) -> Statement:
        value: Scalar = draft.value
        for access in dict.fromkeys(accesses_of(value)):
            value = replaced(value, access, self.access(access))
        walks = tuple(self.walks.index(n) for n in draft.walks)
        return Statement(Access(draft.tensor, self.indices(draft.nodes)), value, draft.add, walks)

    def access(self, access: Access) -> Access:
        """The access with names. An operand that lies on several walks is passed once for each."""
        nodes = tuple(map(node_of, access.indices))
        tensor = access.tensor
        if tensor.startswith("A"):
            on = tuple(None if (s := self.drafts.variables.slots(n)) is None else s.walk for n in nodes)
            dtype = self.jaxpr.invars[int(tensor[1:])].aval.dtype.name
            key = (tensor, on)
            if key not in self.operands:
                again = any(name == tensor for name, _ in self.operands)
                name = f"{tensor}_{len(self.operands)}" if again else tensor
                self.operands[key] = TensorType(name, dtype, self.axes(nodes))
            tensor = self.operands[key].name
        return Access(tensor, self.indices(nodes))

    def indices(self, nodes: Sequence[Node]) -> tuple[IndexVar, ...]:
        """The names of index variables; slots have those of their levels, and of the axes behind."""
        found: list[IndexVar] = []
        for node in nodes:
            slots = self.drafts.variables.slots(node)
            if slots is None:
                found.append(self.name(node))
            else:
                found += map(self.name, (*self.drafts.walks[slots.walk].levels, *slots.behind))
        return tuple(found)

    def axes(self, nodes: Sequence[Node]) -> tuple[Axis, ...]:
        """The storage axes of an array with these axes."""
        found: list[Axis] = []
        dim = 0
        for node in nodes:
            slots = self.drafts.variables.slots(node)
            if slots is None:
                found.append(Dense(dim))
                dim += 1
                continue
            count = len(self.drafts.walks[slots.walk].levels)
            found.append(Positions(self.walks.index(slots.walk), tuple(range(dim, dim + count))))
            found += (Dense(dim + count + n) for n in range(len(slots.behind)))
            dim += count + len(slots.behind)
        return tuple(found)

    def target_type(self, draft: Draft) -> TensorType:
        """The type of a target. Temporaries have the dtype of arithmetic, so nothing is rounded between statements."""
        dtype = draft.dtype if draft.tensor in self.written else accumulator(draft.dtype)
        return TensorType(draft.tensor, dtype, self.axes(draft.nodes))
