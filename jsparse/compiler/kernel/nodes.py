"""The nodes of KernelIR, their traversals and rewrites.

Expressions are typed and pure. `Bind` binds a name once; `Declare` makes a register, and `Set` changes it. The body of
a `ParallelFor` may read every name bound outside of it, but changes none: its results go to buffers or local arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, Literal, TypeAlias

from jsparse.base.dataclass import dataclass
from jsparse.compiler.dtypes import BOOL, I64, Type
from jsparse.compiler.operations import OPERATIONS
from jsparse.compiler.semiring import Add

FILTER_LANES = 16  # numbers that a filter may test at a time
FILTER_ROOM = 4  # bytes that a filter may read to test one of them


@dataclass(frozen=True, slots=True)
class Buffer:
    """A flat array: the kernel's `slot`-th buffer. With slot -1 it is a local array or borrowed memory."""

    name: str
    type: Type
    slot: int
    written: bool = False


@dataclass(frozen=True, slots=True)
class Const:
    """A literal, the same in all lanes."""

    value: float
    type: Type = I64


@dataclass(frozen=True, slots=True)
class Var:
    """A name bound by Bind, Declare, For, or ParallelFor."""

    name: str
    type: Type = I64


@dataclass(frozen=True, slots=True)
class Binary:
    """Arithmetic on operands of one type. `/` takes floats, `//` and `%` take non-negative integers, `&` and `|` take
    bool and bits; `min` and `max` give NaN if an operand is NaN."""

    op: Literal["+", "-", "*", "/", "//", "%", "min", "max", "&", "|", "<<", ">>"]
    left: Expr
    right: Expr

    @property
    def type(self) -> Type:
        return self.left.type


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of two values of one type, lane by lane. With NaN only `!=` is true."""

    op: Literal["<", "<=", "==", "!="]
    left: Expr
    right: Expr

    @property
    def type(self) -> Type:
        return BOOL.with_lanes(self.left.type.lanes)


@dataclass(frozen=True, slots=True)
class LowestBit:
    """The index of the lowest set bit of an integer, which must not be 0."""

    value: Expr

    @property
    def type(self) -> Type:
        return self.value.type


@dataclass(frozen=True, slots=True)
class Select:
    """One of two values, lane by lane; both are computed."""

    condition: Expr
    then: Expr
    otherwise: Expr

    @property
    def type(self) -> Type:
        return self.then.type


@dataclass(frozen=True, slots=True)
class Call:
    """A function of values of one type, lane by lane. `compiler.operations` says which operations are functions."""

    function: str
    arguments: tuple[Expr, ...]

    @property
    def type(self) -> Type:
        type_ = self.arguments[0].type
        return BOOL.with_lanes(type_.lanes) if OPERATIONS[self.function].gives_condition else type_


@dataclass(frozen=True, slots=True)
class Load:
    """`buffer[index]`. With `lanes`, a vector of that many consecutive elements, starting at `index`."""

    buffer: Buffer
    index: Expr
    lanes: int = 0

    @property
    def type(self) -> Type:
        return self.buffer.type.with_lanes(self.lanes)


@dataclass(frozen=True, slots=True)
class Gather:
    """`buffer[index]` for each lane of a vector of integers. The index must not use variables that are vectors, because
    generated code computes it separately for each lane."""

    buffer: Buffer
    index: Expr

    @property
    def type(self) -> Type:
        return self.buffer.type.with_lanes(self.index.type.lanes)


@dataclass(frozen=True, slots=True)
class Ramp:
    """Consecutive integers, one for each lane: `first`, `first + 1`, …"""

    first: Expr
    lanes: int

    @property
    def type(self) -> Type:
        return self.first.type.with_lanes(self.lanes)


@dataclass(frozen=True, slots=True)
class Cast:
    """The value in another dtype, lane by lane. Floats round to nearest, ties to even; integers wrap; a bool says
    whether the value is not 0. A float has to fit the integer dtype that it is cast to."""

    value: Expr
    dtype: str

    @property
    def type(self) -> Type:
        return Type(self.dtype, self.value.type.lanes)


@dataclass(frozen=True, slots=True)
class Splat:
    """A vector with the same scalar in every lane."""

    value: Expr
    lanes: int

    @property
    def type(self) -> Type:
        return self.value.type.with_lanes(self.lanes)


@dataclass(frozen=True, slots=True)
class WidenLanes:
    """A vector extended to `lanes` lanes. The appended lanes hold `fill`."""

    value: Expr
    lanes: int
    fill: float = 0

    @property
    def type(self) -> Type:
        return self.value.type.with_lanes(self.lanes)


@dataclass(frozen=True, slots=True)
class HorizontalReduce:
    """The reduction of a vector's lanes by `op`, in a fixed order: the upper half is combined with the lower half until
    `lanes` lanes are left, or a scalar if `lanes` is 0. A vector whose length is not a power of two can only be reduced
    to a scalar: it is first split into pieces whose lengths are powers of two, the longest piece first."""

    value: Expr
    op: Add = "+"
    lanes: int = 0

    @property
    def type(self) -> Type:
        return self.value.type.with_lanes(self.lanes)


@dataclass(frozen=True, slots=True)
class BuildVector:
    """A vector with the given scalars, of one type, in its lanes. If all scalars are `HorizontalReduce`s by one
    operation, the vectors are reduced together, each in the order of `HorizontalReduce`."""

    values: tuple[Expr, ...]

    @property
    def type(self) -> Type:
        return self.values[0].type.with_lanes(len(self.values))


@dataclass(frozen=True, slots=True)
class Extent:
    """The run-time size of dimension `axis` of a buffer."""

    buffer: Buffer
    axis: int

    @property
    def type(self) -> Type:
        return I64


@dataclass(frozen=True, slots=True)
class Threads:
    """The number of threads that may work on a parallel loop. It may select a code path, but never change a result."""

    @property
    def type(self) -> Type:
        return I64


# What the code of one thread of a warp has besides (`backends.warps`).


@dataclass(frozen=True, slots=True)
class Lane:
    """The number of the thread in its warp."""

    @property
    def type(self) -> Type:
        return I64


@dataclass(frozen=True, slots=True)
class Across:
    """The reduction of a value over groups of `width` consecutive threads, in halves as in `HorizontalReduce`: first
    thread t with thread t ^ width / 2, at last with thread t ^ least. All threads of a group have the result, if
    `least` is 1; otherwise those whose numbers differ by a multiple of `least` have the same."""

    value: Expr
    op: Add
    width: int
    least: int = 1

    @property
    def type(self) -> Type:
        return self.value.type


@dataclass(frozen=True, slots=True)
class FromThread:
    """The value that another thread of the warp has computed. `thread` may differ from thread to thread."""

    value: Expr
    thread: Expr

    @property
    def type(self) -> Type:
        return self.value.type


@dataclass(frozen=True, slots=True)
class Extract:
    """One lane of a vector."""

    value: Expr
    number: int

    @property
    def type(self) -> Type:
        return self.value.type.scalar


Expr: TypeAlias = (
    Const
    | Var
    | Binary
    | Compare
    | LowestBit
    | Select
    | Call
    | Load
    | Gather
    | Ramp
    | Cast
    | Splat
    | WidenLanes
    | HorizontalReduce
    | BuildVector
    | Extent
    | Threads
    | Lane
    | Across
    | FromThread
    | Extract
)


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind `var` to a value, once."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Declare:
    """Make the register `var`, with an initial value."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Set:
    """Change a declared register."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    """`buffer[index] = value`, or, with `accumulate`, `buffer[index] = buffer[index] op value`. A vector is stored to
    consecutive elements, starting at `index`.

    Attributes:
        rounded: whether a product is rounded before it is added: no instruction multiplies and adds at once.
    """

    buffer: Buffer
    index: Expr
    value: Expr
    accumulate: bool = False
    op: Add = "+"
    rounded: bool = False


@dataclass(frozen=True, slots=True)
class For:
    """`for var in range(start, stop, step)`.

    Attributes:
        copies: the maximum number of iterations that generated code may run at a time (`kernel.jam`).
    """

    var: Var
    start: Expr
    stop: Expr
    body: Stmt
    step: int = 1
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Filter:
    """Test `mark`, which is 1 or 0, for each `var` in `range(start, stop)`, in order. If it is 1, set `found[count]` to
    `var - start`, and increment the register `count`.

    The range is short enough that `var - start` fits the type of `found`. After the last stored element, `found` has
    room for `FILTER_LANES` more elements, which may be overwritten. If `mark` reads an array of bytes at computed
    indices, the array has `FILTER_ROOM` bytes from each of these indices on.
    """

    var: Var
    start: Expr
    stop: Expr
    mark: Expr
    found: Buffer
    count: Var


@dataclass(frozen=True, slots=True)
class While:
    """Repeat the body as long as the condition holds."""

    condition: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class If:
    """A branch. `rare` tells the compiler that the condition seldom holds."""

    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None
    rare: bool = False


@dataclass(frozen=True, slots=True)
class ParallelFor:
    """Run the body for every chunk index `var` below `count`, in any order and on any thread."""

    var: Var
    count: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class PrefetchLines:
    """Prefetch the cache lines of `length` elements that start at `index`; the address may be invalid.

    Attributes:
        near: whether the lines are also fetched into the nearest cache.
    """

    buffer: Buffer
    index: Expr
    length: int
    near: bool = True


@dataclass(frozen=True, slots=True)
class LocalArray:
    """Make an array of `length` uninitialised elements on the stack. The slot of `buffer` is -1."""

    buffer: Buffer
    length: int


@dataclass(frozen=True, slots=True)
class Borrow:
    """Run the body with an array of `length` elements, in memory that the run time lends. The slot of `buffer` is -1.

    If there is not enough memory, the body is skipped and the kernel fails.

    Attributes:
        zeros: whether all elements are zero at first.
        stays_empty: whether all elements are zero again at the end of the body.
    """

    buffer: Buffer
    length: Expr
    body: Stmt
    zeros: bool = True
    stays_empty: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """Statements one after the other."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Sync:
    """A barrier of the warp: what its threads stored before is seen by what they load behind it."""


Stmt: TypeAlias = (
    Bind
    | Declare
    | Set
    | Store
    | For
    | Filter
    | While
    | If
    | ParallelFor
    | PrefetchLines
    | LocalArray
    | Borrow
    | Block
    | Sync
)


_known: dict[type, tuple[str, ...] | None] = {}  # the fields of a class are asked for a thousand times per kernel


def _fields(class_: type) -> tuple[str, ...] | None:
    """Return the names of the fields of a class of nodes, or None for any other class."""
    if class_ not in _known:
        is_node = is_dataclass(class_) and not issubclass(class_, Type | Buffer)
        _known[class_] = tuple(field.name for field in fields(class_)) if is_node else None
    return _known[class_]


def nodes(node: object) -> Iterator[Expr | Stmt]:
    """The node and all nodes below it, outermost first."""
    yield node  # type: ignore[misc]
    for name in _fields(type(node)) or ():
        value = getattr(node, name)
        for child in value if isinstance(value, tuple) else (value,):
            if _fields(type(child)) is not None:
                yield from nodes(child)


def map_children(node: Any, change: Callable[[Any], Any]) -> Any:
    """The node with each child replaced by `change(child)`; the node itself if none changes."""
    changed: dict[str, Any] = {}
    for name in _fields(type(node)) or ():
        value = getattr(node, name)
        if isinstance(value, tuple):
            children = tuple(change(child) for child in value)
            if any(new is not old for new, old in zip(children, value, strict=True)):
                changed[name] = children
        elif _fields(type(value)) is not None:
            child = change(value)
            if child is not value:
                changed[name] = child
    return replace(node, **changed) if changed else node


def variables(node: object) -> frozenset[str]:
    """Return all names that a node binds or uses."""
    return frozenset(n.name for n in nodes(node) if isinstance(n, Var))
