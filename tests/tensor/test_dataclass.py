"""`jsparse.base.dataclass` makes the classes that `dataclasses` makes."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import KW_ONLY, FrozenInstanceError, field

import pytest

from jsparse.base.dataclass import dataclass

MAKERS = {"standard": dataclasses.dataclass, "ours": dataclass}


def classes(make):
    """A class with all kinds of fields, one that inherits from it, one that is compared by identity, one of nothing."""

    @make(frozen=True, slots=True)
    class Point:
        x: int
        y: float = 2.0
        names: list = field(default_factory=list)
        note: str = field(default="", compare=False)
        total: float = field(default=0.0, init=False, repr=False)
        _: KW_ONLY
        scale: int = 1

        def __post_init__(self):
            object.__setattr__(self, "total", self.x + self.y)

    @make(frozen=True)
    class Named(Point):
        name: str = "p"

        def __repr__(self):
            return self.name

    @make(frozen=True, eq=False)
    class Identity:
        x: int

    @make(frozen=True, slots=True)
    class Nothing:
        pass

    @make(frozen=True)
    class Own:
        x: int

        def __eq__(self, other):
            return True

        def __init__(self):
            object.__setattr__(self, "x", 7)

    return Point, Named, Identity, Nothing, Own


def outcome(function):
    """What a call gives, or the text of its error."""
    try:
        return str(function())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


QUESTIONS = {
    "shown": lambda P, N, I, O, W: (P(1), P(1, 3.0, [4], scale=2), N(1), I(1), O(), W()),  # noqa: E741
    "equal": lambda P, N, I, O, W: (P(1) == P(1), P(1) == P(2), P(1) == N(1), P(1, note="a") == P(1), O() == O()),  # noqa: E741
    "identity": lambda P, N, I, O, W: (I(1) == I(1), hash(I(1)) != 1, P(1) == 1, W() == 3),  # noqa: E741
    "hash": lambda P, N, I, O, W: (hash(P(1, 2.0, ())) == hash(P(1, 2.0, (), "n")), hash(O()), hash(W())),  # noqa: E741
    "unhashable": lambda P, N, I, O, W: hash(P(1)),  # noqa: E741
    "signature": lambda P, N, I, O, W: [inspect.signature(C) for C in (P, N, I, O, W)],  # noqa: E741
    "replaced": lambda P, N, I, O, W: dataclasses.replace(P(1), x=5).total,  # noqa: E741
    "matched": lambda P, N, I, O, W: (P.__match_args__, N.__match_args__, O.__match_args__),  # noqa: E741
    "copied": lambda P, N, I, O, W: (copy.deepcopy(P(1, 2.0, [3])) == P(1, 2.0, [3]), copy.copy(O()) == O()),  # noqa: E741
    "missing": lambda P, N, I, O, W: P(),  # noqa: E741
    "too many": lambda P, N, I, O, W: P(1, 2, 3, 4, 5),  # noqa: E741
    "unknown": lambda P, N, I, O, W: P(1, z=3),  # noqa: E741
    "lists of their own": lambda P, N, I, O, W: P(1).names is P(1).names,  # noqa: E741
    "fields": lambda P, N, I, O, W: [(f.name, f.type, f.init) for f in dataclasses.fields(N)],  # noqa: E741
    "slots": lambda P, N, I, O, W: (P.__slots__, hasattr(P(1), "__dict__"), hasattr(N(1), "__dict__")),  # noqa: E741
    "as a dict": lambda P, N, I, O, W: dataclasses.asdict(P(1)),  # noqa: E741
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_classes_are_those_of_the_standard_library(question):
    expected, found = (outcome(lambda make=make: QUESTIONS[question](*classes(make))) for make in MAKERS.values())
    assert found == expected


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_frozen(make):
    point = classes(make)[0](1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x


@dataclass(frozen=True, slots=True)
class Pickled:
    """Pickles find a class by its name."""

    x: int
    y: tuple = ()


def test_pickles():
    assert pickle.loads(pickle.dumps(Pickled(1, (2,)))) == Pickled(1, (2,))


def test_other_options_are_left_to_the_standard_library():
    @dataclass(frozen=True, order=True)
    class Ordered:
        x: int

    @dataclass
    class Mutable:
        x: int

    assert Ordered(1) < Ordered(2)
    value = Mutable(1)
    value.x = 2
    assert value == Mutable(2)
