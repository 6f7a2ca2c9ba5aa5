"""Random programs of several statements, and their meaning, computed point by point in Python."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np
from programs.near import InexactError, Near, applied, check, rounded

from jsparse import FormatError
from jsparse.compiler.problem import Dense, Positions, Problem, TensorType
from jsparse.compiler.scalar import Apply, Let, Local, Number, Rounded, Scalar
from jsparse.compiler.schedule.layout import storage_type
from jsparse.compiler.semiring import identity
from jsparse.compiler.statement import DerivedVar, Statement
from jsparse.formats import Format, Pattern
from jsparse.notation import Access

__all__ = ["RandomStatements", "random_chain", "random_statements"]

MOST_POINTS = 300  # of one statement
KINDS = {"float": ("float32", "float64"), "int": ("int32", "int64")}
_ADD = {"+": np.add, "min": np.minimum, "max": np.maximum}
PYTHON = {"+": lambda a, b: a + b, "min": min, "max": max}
OF_FLOATS = ("exp", "exp2", "expm1", "tanh", "logistic", "erf", "erfc", "cbrt", "floor", "ceil", "trunc", "round")
OF_POSITIVE = ("log", "log1p", "sqrt", "rsqrt")
OF_NUMBERS = ("abs", "neg", "sign")


@dataclass(frozen=True)
class RandomStatements:
    """A problem of several statements on arrays.

    Attributes:
        seed: the seed and the number that it is drawn from.
        arrays: the operands' values, by name.
        expected: the values of all targets, by name.
        errors: bounds on the errors of these values; 0 where they are exact.
    """

    seed: tuple[int, int]
    problem: Problem
    patterns: tuple[Pattern, ...]
    arrays: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]
    errors: dict[str, np.ndarray]

    def __str__(self) -> str:
        return f"{self.problem}\narrays {self.arrays}\npatterns {self.patterns}"


def random_statements(seed: int, number: int) -> RandomStatements:
    """A program of one to four statements."""
    rng = np.random.default_rng((seed, number, 17))
    has_functions = bool(rng.random() < 0.4)
    while True:
        try:
            return _Draw(rng, has_functions).program((seed, number))
        except InexactError:
            continue


def random_chain(seed: int, number: int) -> RandomStatements:
    """A program of two to five statements on one or two patterns, which read each other's targets."""
    rng = np.random.default_rng((seed, number, 19))
    while True:
        try:
            return _Chain(rng, has_functions=False).program((seed, number))
        except InexactError:
            continue


class _Draw:
    """One program: operands and patterns are made when they are first used."""

    least, most, read_again, temporary, summed = 1, 4, 0.5, 0.5, 0.3

    def __init__(self, rng: np.random.Generator, has_functions: bool) -> None:
        self.rng, self.has_functions, self.dynamic = rng, has_functions, False
        self.dtypes = KINDS["float" if has_functions and self.chance(0.7) else self.one(list(KINDS))]
        self.locals: list[str] = []
        self.sizes = {v: int(rng.integers(1, 5)) for v in "ijk"}
        self.derived: list[DerivedVar] = []
        for var in "ij":
            if self.chance(0.3):
                self.derive(var)
        self.patterns: list[Pattern] = []
        self.walks: list[tuple[str, ...]] = []
        self.tensors: dict[str, TensorType] = {}
        self.access_of: dict[str, Access] = {}
        self.arrays: dict[str, np.ndarray] = {}

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def one(self, of: Sequence) -> object:
        return of[int(self.rng.integers(len(of)))]

    def derive(self, var: str) -> None:
        """Cut a variable: `i = 2·i0 + i1`, the last part of it being shorter than the others in most cases."""
        width = int(self.rng.integers(1, 4))
        outer, inner = f"{var}0", f"{var}1"
        self.sizes |= {outer: -(-self.sizes[var] // width), inner: width}
        self.derived.append(DerivedVar(var, ((width, outer), (1, inner))))

    def program(self, seed: tuple[int, int]) -> RandomStatements:
        statements: list[Statement] = []
        for n in range(int(self.rng.integers(self.least, self.most + 1))):
            statements.append(self.statement(f"T{n}"))
            if self.chance(self.summed):
                statements += self.later_terms(statements[-1])
        targets = [s.target.tensor for s in statements]
        views = {name for tensor in self.tensors.values() if tensor.view_of for name in (tensor.name, tensor.view_of)}
        temporaries = tuple(name for name in targets[:-1] if name not in views and self.chance(self.temporary))
        operands = [name for name in self.tensors if name not in targets]
        used = {v for a in self.access_of.values() for v in a.variables()} | {v for walk in self.walks for v in walk}
        used |= {v for d in self.derived if d.var in used for _, v in d.parts}
        problem = Problem(
            tuple(statements),
            tuple(self.tensors[name] for name in (*targets, *operands)),
            tuple(replace(storage_type(p), dynamic=self.dynamic) for p in self.patterns),
            tuple((v, size) for v, size in self.sizes.items() if v in used),
            tuple(self.walks),
            derived=tuple(d for d in self.derived if d.var in used),
            temporaries=temporaries,
        )
        arrays = {name: self.arrays[name] for name in operands}
        expected, errors = _expected(problem, self.patterns, arrays)
        return RandomStatements(seed, problem, tuple(self.patterns), arrays, expected, errors)

    def statement(self, name: str) -> Statement:
        patterns = tuple(dict.fromkeys(self.pattern() for _ in range(self.one((0, 1, 1, 2)))))
        self.near = [v for n in patterns for v in self.walks[n]]
        while True:
            value = self.scalar(int(self.rng.integers(3)) + self.has_functions, patterns)
            condition = self.comparison(patterns) if self.chance(0.2) else None
            read = Statement(Access(name, ()), value, patterns=patterns, condition=condition)
            variables = list(dict.fromkeys([*self.near, *read.assignment.variables()]))
            if prod(self.sizes[v] for v in self.free(variables)) <= MOST_POINTS:
                break
        add = self.one(("+", "+", "+", "min", "max"))
        return replace(read, target=self.target(name, variables, patterns), add=add)

    def later_terms(self, first: Statement) -> list[Statement]:
        """Statements that add to what a statement has written, some by other indices. No statement may read it then."""
        name, found = first.target.tensor, list[Statement]()
        target = self.tensors[name]
        for n in range(1, 4) if target.positions is None else ():
            before = [copy(x) for x in (self.tensors, self.access_of, self.arrays, self.patterns, self.walks)]
            view = self.statement(f"{name}.{n}")
            type_ = self.tensors[view.target.tensor]
            alike = type_.positions is None and type_.dtype == target.dtype and self.count(view) == self.count(first)
            if alike and not {name, *(view.target.tensor for view in found)} & {a.tensor for a in view.reads}:
                self.tensors[view.target.tensor] = replace(type_, view_of=name)
                found.append(replace(view, add=first.add))
            else:
                self.tensors, self.access_of, self.arrays, self.patterns, self.walks = before
        for written in (first, *found) if found else ():
            del self.access_of[written.target.tensor]
        return found

    def count(self, statement: Statement) -> int:
        return prod(self.sizes[v] for v in statement.target.indices)

    def free(self, variables: Sequence[str]) -> list[str]:
        """The variables without derived ones, with those that determine these."""
        parts = {d.var: [v for _, v in d.parts] for d in self.derived}
        return list(dict.fromkeys(w for v in variables for w in parts.get(v, [v])))

    def target(self, name: str, variables: Sequence[str], patterns: Sequence[int]) -> Access:
        dtype = str(self.one(self.dtypes))
        if patterns and self.chance(0.3):
            number = int(self.one(patterns))
            access, axes = Access(name, self.walked(number)), self.positions(number)
        else:
            kept = [v for v in self.rng.permutation(variables).tolist() if self.chance(0.5)][:3]
            access, axes = Access(name, tuple(kept)), tuple(Dense(n) for n in range(len(kept)))
        return self.made(access, TensorType(name, dtype, axes))

    def made(self, access: Access, type_: TensorType) -> Access:
        self.tensors[access.tensor], self.access_of[access.tensor] = type_, access
        return access

    def positions(self, number: int) -> tuple[Positions]:
        return (Positions(number, self.patterns[number].format.order),)

    def pattern(self) -> int:
        """The number of a pattern, which may be a new one."""
        if self.patterns and self.chance(0.4):
            return int(self.rng.integers(len(self.patterns)))
        names = self.rng.permutation(list(self.sizes)).tolist()[: int(self.rng.integers(1, 4))]
        shape = [self.sizes[v] for v in names]
        coords = np.argwhere(self.rng.random(shape) < self.one((0.3, 0.6, 1.0))).T
        self.patterns.append(self.stored(coords, shape))
        self.walks.append(tuple(names[dim] for dim in self.patterns[-1].format.order))
        return len(self.patterns) - 1

    def stored(self, coords: np.ndarray, shape: Sequence[int]) -> Pattern:
        """The entries in a format that can store them: a singleton below a unique level has one for each parent."""
        while True:
            try:
                return Pattern.from_coordinates(coords, shape, self.format(len(shape)))[0]
            except FormatError:
                continue

    def format(self, ndim: int) -> Format:
        kinds = ("dense", "compressed", "compressed", "range", "compressed(nonunique)", "singleton")
        names = [f"d{n}" for n in range(ndim)]
        while True:
            levels = [f"{v} : {self.one(kinds)}" for v in self.rng.permutation(names)]
            try:
                format = Format.of(f"({', '.join(names)}) -> ({', '.join(levels)})", ndim)
            except FormatError:
                continue
            if format.trailing_dense == 0:
                return format

    def scalar(self, depth: int, patterns: Sequence[int]) -> Scalar:
        if self.locals and self.chance(0.4):
            return Local(str(self.one(self.locals)))
        if depth == 0 or self.chance(0.2):
            return Number(int(self.rng.integers(-2, 3))) if self.chance(0.15) else self.access(patterns)
        if self.chance(0.1):
            return Rounded(self.scalar(depth - 1, patterns), "float16" if "float32" in self.dtypes else "int8")
        if self.chance(0.15):
            branches = (self.scalar(depth - 1, patterns) for _ in range(2))
            return Apply("select", (self.comparison(patterns), *branches))
        if self.chance(0.1):
            return self.let(depth, patterns)
        if self.has_functions and self.chance(0.6):
            return self.function(depth, patterns)
        if "float32" in self.dtypes and self.chance(0.1):
            return Apply("/", (self.scalar(depth - 1, patterns), Number(self.one((1, -2, 4)))))
        operation = str(self.one(("*", "*", "*", "+", "-", "min", "max")))
        count = 3 if operation != "-" and self.chance(0.2) else 2
        return Apply(operation, tuple(self.scalar(depth - 1, patterns) for _ in range(count)))

    def let(self, depth: int, patterns: Sequence[int]) -> Scalar:
        """A value, or a condition, that has a name."""
        name = f"t{len(self.locals)}"
        if self.chance(0.2):
            branches = (self.scalar(depth - 1, patterns) for _ in range(2))
            return Let("holds", self.comparison(patterns), Apply("select", (Local("holds"), *branches)))
        value = self.scalar(depth - 1, patterns)
        self.locals.append(name)
        body = Apply(str(self.one("+*")), (Local(name), self.scalar(depth - 1, patterns)))
        self.locals.pop()
        return Let(name, value, body)

    def function(self, depth: int, patterns: Sequence[int]) -> Scalar:
        value = self.scalar(depth - 1, patterns)
        if "float32" not in self.dtypes or self.chance(0.2):
            return Apply(str(self.one(OF_NUMBERS)), (value,))
        if self.chance(0.3):
            positive = Apply("+", (Apply("abs", (value,)), Number(1)))
            if self.chance(0.3):
                return Apply("pow", (positive, Number(float(self.one((-1.5, 0.5, 2.0))))))
            return Apply(str(self.one(OF_POSITIVE)), (positive,))
        return Apply(str(self.one(OF_FLOATS)), (value,))

    def comparison(self, patterns: Sequence[int]) -> Scalar:
        if self.chance(0.1):
            return Apply("not", (self.comparison(patterns),))
        if self.chance(0.1):
            return Apply(str(self.one("&|")), (self.comparison(patterns), self.comparison(patterns)))
        return Apply(self.one(("==", "!=", "<", "<=")), (self.scalar(1, patterns), self.scalar(0, patterns)))

    def access(self, patterns: Sequence[int]) -> Access:
        """An operand, new or not, or the target of an earlier statement."""
        known = [a for name, a in self.access_of.items() if self.is_readable(name, patterns)]
        if known and self.chance(self.read_again):
            return self.one(known)
        name, dtype = f"A{len(self.tensors)}", str(self.one(self.dtypes))
        if patterns and self.chance(0.5):
            number = int(self.one(patterns))
            self.arrays[name] = self.values((self.patterns[number].nse,), dtype)
            return self.made(Access(name, self.walked(number)), TensorType(name, dtype, self.positions(number)))
        pool = [v for v in self.sizes if v in self.near or self.chance(0.4)]
        names = tuple(self.rng.permutation(pool).tolist()[: int(self.one((0, 1, 1, 2)))])
        shape = tuple(self.sizes[v] for v in names)
        if names and self.chance(0.15):
            table = Access(f"{name}of", names[:1])
            self.arrays[table.tensor] = self.rng.integers(-1, shape[0] + 1, shape[:1]).astype("int32")
            self.tensors[table.tensor] = TensorType(table.tensor, "int32", (Dense(0),))
            self.arrays[name] = self.values(shape, dtype)
            axes = tuple(Dense(n) for n in range(len(names)))
            return self.made(Access(name, (table, *names[1:])), TensorType(name, dtype, axes))
        self.arrays[name] = self.values(shape, dtype)
        return self.made(Access(name, names), TensorType(name, dtype, tuple(Dense(n) for n in range(len(names)))))

    def walked(self, number: int) -> tuple[str, ...]:
        """The variables of a pattern by dimension."""
        order = self.patterns[number].format.order
        return tuple(self.walks[number][order.index(dim)] for dim in range(len(order)))

    def is_readable(self, name: str, patterns: Sequence[int]) -> bool:
        positions = self.tensors[name].positions
        return positions is None or positions.pattern in patterns

    def values(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        return self.rng.integers(-3, 4, shape).astype(dtype)


class _Chain(_Draw):
    """A program whose statements walk one pattern in most cases, and whose targets keep its outermost variables."""

    least, most, read_again, temporary, summed = 2, 5, 0.7, 0.9, 0.0

    def program(self, seed: tuple[int, int]) -> RandomStatements:
        self.dynamic = self.chance(0.3)
        return super().program(seed)

    def pattern(self) -> int:
        return 0 if self.patterns and self.chance(0.9) else super().pattern()

    def derive(self, var: str) -> None:
        if self.chance(0.3):
            super().derive(var)

    def target(self, name: str, variables: Sequence[str], patterns: Sequence[int]) -> Access:
        dtype = str(self.one(self.dtypes))
        if patterns and self.chance(0.5):
            return super().target(name, variables, patterns)
        outer = [v for v in variables if v in self.walks[0][:1] or self.chance(0.3)] if self.walks else variables[:1]
        kept = self.rng.permutation(outer[:3]).tolist()
        return self.made(Access(name, tuple(kept)), TensorType(name, dtype, tuple(map(Dense, range(len(kept))))))


def _expected(
    problem: Problem, patterns: Sequence[Pattern], arrays: dict[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The values of all targets, and their errors."""
    known, found, errors = dict(arrays), dict[str, np.ndarray](), dict[str, np.ndarray]()
    for statement in problem.statements:
        name = statement.target.tensor
        found[name], errors[name] = _Meaning(problem, patterns, known, errors).values(statement)
        known[name] = found[name]
        whole = problem.type_of[name].view_of
        if whole:
            shape = found[whole].shape
            errors[whole] = errors[whole] + errors[name].reshape(shape)
            both = np.asarray(_ADD[statement.add](found[whole].astype(object), found[name].reshape(shape)), object)
            check(max(map(abs, both.reshape(-1)), default=0), problem.type_of[whole].dtype)
            found[whole] = both.astype(found[whole].dtype)
    return found, errors


@dataclass(frozen=True)
class _Meaning:
    """The values of targets on arrays of the tensors that are known so far."""

    problem: Problem
    patterns: Sequence[Pattern]
    arrays: Mapping[str, np.ndarray]
    errors: Mapping[str, np.ndarray]

    def values(self, statement: Statement) -> tuple[np.ndarray, np.ndarray]:
        """The values of a statement's target, and their errors."""
        target = self.problem.type_of[statement.target.tensor]
        shape = tuple(
            self.patterns[a.pattern].nse
            if isinstance(a, Positions)
            else self.problem.size[statement.target.indices[a.dim]]
            for a in target.axes
        )
        sums = np.full(shape, identity(statement.add, target.dtype), object)
        most, errors = np.zeros(shape, object), np.zeros(shape)
        for point in self.points(statement):
            value = point.term(statement)
            where = point.where(statement.target)
            if value is None or where is None:
                continue
            if statement.add in ("min", "max"):
                value = rounded(value, target.dtype)
                errors[where] = max(errors[where], value.error)
            else:
                errors[where] += value.error
            sums[where] = PYTHON[statement.add](sums[where], value.value)
            most[where] += abs(value.value)
            if not errors[where]:
                check(most[where], target.dtype)
        # Each addition of inexact numbers has an error, and so has the last rounding.
        errors = np.where(errors > 0, errors + 64 * self.eps * most.astype(float), 0)
        return np.array(sums.tolist(), target.dtype).reshape(shape), errors

    @property
    def eps(self) -> float:
        """The relative error of arithmetic."""
        return 2.0**-23 if any(t.dtype == "float32" for t in self.problem.tensors) else 2.0**-52

    def points(self, statement: Statement) -> Iterator[_Point]:
        """The points at which all of the statement's patterns store an entry."""
        sizes, walks = self.problem.size, self.problem.walks
        named = dict.fromkeys([*statement.assignment.variables(), *(v for n in statement.patterns for v in walks[n])])
        derived = [d for d in self.problem.derived if d.var in named]
        outer = [v for d in derived for _, v in d.parts]
        free = list(dict.fromkeys([*(v for v in named if v not in {d.var for d in derived}), *outer]))
        for point in itertools.product(*(range(sizes[v]) for v in free)):
            at = dict(zip(free, point, strict=True))
            at |= {d.var: sum(stride * at[v] for stride, v in d.parts) for d in derived}
            if any(at[d.var] >= sizes[d.var] for d in derived):
                continue
            found = {n: self.position(n, at) for n in statement.patterns}
            if None not in found.values():
                yield _Point(self.problem, self.arrays, self.errors, self.eps, at, found)

    def position(self, number: int, at: Mapping[str, int]) -> int | None:
        """The position in a pattern of the entry at a point, if it stores one."""
        order, walk = self.patterns[number].format.order, self.problem.walks[number]
        return self.entries[number].get(tuple(at[walk[order.index(dim)]] for dim in range(len(order))))

    @cached_property
    def entries(self) -> list[dict[tuple[int, ...], int]]:
        """For each pattern, the position of each stored entry."""
        return [{tuple(c): n for n, c in enumerate(zip(*p.to_coords(), strict=True))} for p in self.patterns]


@dataclass(frozen=True)
class _Point:
    """One point of a statement's iteration space."""

    problem: Problem
    arrays: Mapping[str, np.ndarray]
    errors: Mapping[str, np.ndarray]
    eps: float
    at: Mapping[str, int]
    positions: Mapping[int, int]

    def term(self, statement: Statement) -> Near | None:
        """The value, if it counts."""
        value = self.value(statement.value, {})
        holds = Near(True) if statement.condition is None else self.value(statement.condition, {})
        return None if holds is None or not holds.value else value

    def value(self, value: Scalar, names: Mapping[str, Near | None]) -> Near | None:
        """The value of an expression; None if it reads anything out of range."""
        match value:
            case Access():
                return self.element(value)
            case Number(value=number):
                return Near(number)
            case Local(name=name):
                return names[name]
            case Let(name=name, value=inner, body=body):
                found = self.value(inner, names)
                return None if found is None else self.value(body, {**names, name: found})
            case Rounded(value=exact, dtype=dtype):
                found = self.value(exact, names)
                return None if found is None else rounded(found, dtype)
            case Apply(operation=operation, arguments=arguments):
                values = [self.value(x, names) for x in arguments]
                return None if None in values else applied(operation, values, self.eps)

    def element(self, access: Access) -> Near | None:
        where = self.where(access)
        if where is None:
            return None
        error = self.errors[access.tensor][where].item() if access.tensor in self.errors else 0.0
        return Near(self.arrays[access.tensor][where].item(), error)

    def where(self, access: Access) -> tuple[int, ...] | None:
        """The place of an element; None out of range."""
        found = []
        for axis in self.problem.type_of[access.tensor].axes:
            if isinstance(axis, Positions):
                found.append(self.positions[axis.pattern])
                continue
            index = access.indices[axis.dim]
            if isinstance(index, Access):
                inner = self.element(index)
                place = None if inner is None else inner.value
            else:
                place = self.at[index]
            if place is None:
                return None
            if isinstance(index, Access) and not 0 <= place < self.arrays[access.tensor].shape[axis.dim]:
                return None
            found.append(int(place))
        return tuple(found)
