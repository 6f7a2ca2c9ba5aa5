"""`dataclass` as in the standard library, for classes that are cheap to make.

The standard library compiles six methods of each frozen class from text, which took longer than the rest of `import
jsparse`. Here frozen classes share the functions that compare, hash and print objects and refuse assignments. Only
`__init__` is compiled from text, when a class makes its first object or somebody asks for its signature.
`dataclasses.fields` and `replace`, pickles and `match` work as usual, and type checkers see the decorator of the
standard library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NoReturn, cast

__all__ = ["dataclass"]

Method = Callable[..., Any]


def _dataclass(
    class_: type | None = None,
    /,
    *,
    frozen: bool = False,
    order: bool = False,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    slots: bool = False,
    **options: bool,
) -> type | Callable[[type], type]:
    """Make a class a dataclass, with the standard options.

    Mutable or ordered classes are passed on to `dataclasses.dataclass`. All others are made here.
    """

    def decorate(class_: type) -> type:
        if not frozen or order:
            options.update(frozen=frozen, order=order, init=init, repr=repr, eq=eq, slots=slots)
            return dataclasses.dataclass(**options)(class_)
        written = set(vars(class_))
        if "__eq__" in written and vars(class_).get("__hash__", ...) is None:
            written.discard("__hash__")  # Python set it to None
        class_.__doc__ = class_.__doc__ or class_.__name__  # or else the signature would be put there now
        class_ = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, **options)(class_)
        methods: dict[str, object] = {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        methods |= {"__init__": _Init(class_)} if init else {}
        methods |= {"__repr__": _represent} if repr else {}
        methods |= _comparison(class_) if eq else {}
        methods |= {"__getstate__": _state, "__setstate__": _restore} if slots else {}
        for name, method in methods.items():
            if name not in written:
                setattr(class_, name, method)
        return class_

    return decorate if class_ is None else decorate(class_)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = _dataclass


def _comparison(class_: type) -> dict[str, Method]:
    """Return `__eq__` and `__hash__`, which use the fields that are compared."""
    names = [field.name for field in dataclasses.fields(class_) if field.compare]
    key: Callable[[object], tuple[object, ...]]
    match names:
        case []:
            key = lambda value: ()  # noqa: E731
        case [name]:
            key = lambda value: (getattr(value, name),)  # noqa: E731
        case _:
            key = attrgetter(*names)

    def equal(self: object, other: object) -> Any:
        if self is other:
            return True
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    return {"__eq__": equal, "__hash__": lambda self: hash(key(self))}


@recursive_repr()
def _represent(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


class _Init:
    """The placeholder for the `__init__` of a class. The first lookup replaces it by a compiled `__init__`."""

    __slots__ = ("class_",)

    def __init__(self, class_: type) -> None:
        self.class_ = class_

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if vars(self.class_)["__init__"] is self:  # another thread may have been first
            setattr(self.class_, "__init__", _init_of(self.class_))  # noqa: B010  mypy forbids the assignment
        return vars(self.class_)["__init__"].__get__(instance, owner)


class _Factory:
    """Stands in the signature of `__init__` for a default value that a factory makes, separately for each object."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _init_of(class_: type) -> Method:
    """Compile an `__init__` that sets all fields, and calls `__post_init__` if there is one."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_factory": _FACTORY}
    positional: list[str] = []
    named: list[str] = []
    body: list[str] = []
    for field in dataclasses.fields(class_):
        name = value = field.name
        default = ""
        if field.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"], default = field.default_factory, "_factory"
            value = f"_make_{name}() if {name} is _factory else {name}" if field.init else f"_make_{name}()"
        elif field.default is not dataclasses.MISSING:
            names[f"_default_{name}"], default = field.default, f"_default_{name}"
            value = name if field.init else default
        if field.init:
            (named if field.kw_only else positional).append(f"{name}={default}" if default else name)
        if field.init or default:
            body.append(f" _set(self, {name!r}, {value})")
    if hasattr(class_, "__post_init__"):
        body.append(" self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    exec("\n".join([f"def __init__({parameters}):", *(body or [" pass"])]), names)
    init: Any = names["__init__"]
    init.__qualname__, init.__module__ = f"{class_.__qualname__}.__init__", class_.__module__
    init.__annotations__ = {field.name: field.type for field in dataclasses.fields(class_) if field.init}
    init.__annotations__["return"] = None
    return cast(Method, init)
