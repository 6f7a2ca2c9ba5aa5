"""Remembering what was found for patterns, without keeping patterns that nobody else has.

Plans, statements and compiled programs are found once and remembered by their arguments, in which patterns occur. A
pattern may have gigabytes, so an entry goes as soon as the last tensor on one of its patterns does. Tensors say so by
an *owner*: an object that all tensors on the same index arrays hold, and nothing else. Patterns in an entry's key that
no tensor is on (those of tables of integers, say) are kept up to a number of bytes.
"""

from __future__ import annotations

import atexit
import dataclasses
import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar

__all__ = ["Memo", "Owned", "Owner", "Owning", "forget_everything", "remembered"]

LOOSE_BYTES = 1 << 26  # of index arrays that no tensor has, which one memo keeps at most

P = ParamSpec("P")
R = TypeVar("R")

_numbers = itertools.count()
_entries: dict[int, tuple[dict[Any, _Entry], Any]] = {}  # number of an entry → where it is, and its key
_memos: list[Memo[Any, Any]] = []


class Owner:
    """Lives as long as a tensor on certain index arrays does; then what was remembered for them is forgotten."""

    __slots__ = ("__weakref__", "entries")

    def __init__(self) -> None:
        self.entries: list[int] = []

    def add(self, number: int) -> None:
        """One more entry in which the arrays occur."""
        self.entries.append(number)
        if len(self.entries) % 1024 == 0:
            self.entries = [n for n in self.entries if n in _entries]

    def __del__(self) -> None:
        for number in self.entries:
            _remove(number)


_owners: weakref.WeakValueDictionary[bytes, Owner] = weakref.WeakValueDictionary()


@atexit.register
def _release_owners() -> None:
    """Owners that outlive this module, as the interpreter ends, find nothing to forget."""
    for owner in list(_owners.values()):
        owner.entries.clear()


class Owned:
    """Base of what memos keep weakly: immutable objects with large arrays."""

    __slots__ = ("_owner",)
    _owner: weakref.ref[Owner] | None

    def identity(self) -> bytes:
        """What stands for the arrays: objects over the same ones have one owner."""
        raise NotImplementedError

    def nbytes(self) -> int:
        """The size of the arrays."""
        raise NotImplementedError

    def owner(self) -> Owner:
        """What a tensor holds for as long as it lives."""
        found = self.living_owner()
        if found is None:
            found = _owners.setdefault(self.identity(), Owner())
            object.__setattr__(self, "_owner", weakref.ref(found))
        return found

    def living_owner(self) -> Owner | None:
        """The owner, if a tensor holds it."""
        found = None if self._owner is None else self._owner()
        return _owners.get(self.identity()) if found is None else found


class Owning:
    """Base of immutable objects that are made of such."""

    __slots__ = ()

    def owned(self) -> tuple[Owned, ...]:
        """What they are made of."""
        raise NotImplementedError


class _Entry:
    __slots__ = ("loose", "number", "used", "value")

    def __init__(self, value: Any, loose: int) -> None:
        self.value, self.loose, self.number, self.used = value, loose, next(_numbers), False


class Memo(Generic[P, R]):
    """A function that remembers its last results. Arguments are hashable; those used since are the last to go."""

    def __init__(self, function: Callable[P, R], maxsize: int) -> None:
        self.function, self.maxsize = function, maxsize
        self.known: dict[Any, _Entry] = {}
        self.__doc__ = function.__doc__
        _memos.append(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        key = (*args, *kwargs.items()) if kwargs else args
        try:
            entry = self.known[key]
        except KeyError:
            return self._made(key, *args, **kwargs)
        entry.used = True
        value: R = entry.value
        return value

    def _made(self, key: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        value = self.function(*args, **kwargs)
        owned = {id(found): found for found in _owned_in(key)}.values()
        owners = [(found, found.living_owner()) for found in owned]
        entry = _Entry(value, sum(found.nbytes() for found, owner in owners if owner is None))
        self.known[key] = entry
        _entries[entry.number] = self.known, key
        for owner in {id(owner): owner for _, owner in owners if owner is not None}.values():
            owner.add(entry.number)
        self._make_room(entry)
        return value

    def _make_room(self, newest: _Entry) -> None:
        """Forget the oldest entries that were not used since this was done last; never the newest."""
        loose = sum(entry.loose for entry in list(self.known.values())) if newest.loose else 0
        while len(self.known) > self.maxsize or loose > LOOSE_BYTES:
            others = [entry for entry in list(self.known.values()) if entry is not newest]
            if not others:
                return
            oldest = next((entry for entry in others if not entry.used), None)
            if oldest is None:
                for entry in others:
                    entry.used = False
                continue
            loose -= oldest.loose
            _remove(oldest.number)

    def clear(self) -> None:
        """Forget everything."""
        for entry in list(self.known.values()):
            _remove(entry.number)


def remembered(maxsize: int) -> Callable[[Callable[P, R]], Memo[P, R]]:
    """Decorates a function to remember that many results, as `functools.lru_cache` does."""
    return lambda function: Memo(function, maxsize)


def forget_everything() -> None:
    """Empty all memos."""
    for memo in _memos:
        memo.clear()


def _remove(number: int) -> None:
    """May be called at any time, also while an entry is made: an owner may die at any time."""
    known, key = _entries.pop(number, (None, None))
    entry = None if known is None else known.get(key)
    if known is not None and entry is not None and entry.number == number:
        known.pop(key, None)


def _owned_in(x: Any) -> Iterator[Owned]:
    """Everything in an argument that memos keep weakly."""
    if isinstance(x, Owned):
        yield x
    elif isinstance(x, Owning):
        yield from x.owned()
    elif isinstance(x, tuple | list | frozenset):
        for item in x:
            yield from _owned_in(item)
    elif dataclasses.is_dataclass(x) and not isinstance(x, type):
        for field in dataclasses.fields(x):
            yield from _owned_in(getattr(x, field.name))
