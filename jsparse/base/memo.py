"""Memos: caches whose keys contain patterns, and which do not keep any pattern alive for long.

Plans, statements and compiled programs are cached by their arguments, which contain patterns. A pattern may take
gigabytes, so it is *loose* as soon as the last tensor on it has died, and a memo keeps loose patterns up to
`LOOSE_BYTES` in total. So `jsparse.asarray(matrix) @ x` in a loop is planned once. An *owner* is an object that dies
with that tensor: all tensors on the same index arrays refer to one owner, and nothing else does. The pattern of an
index table has none, and is loose from the start. Results that are computed from a jaxpr are removed with the jaxpr.

Properties that are computed once (`lazy`) keep their value in the object itself. `hold_over_forks` makes sure that a
lock is free in a forked process.
"""

from __future__ import annotations

import os
from threading import Lock, RLock
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:  # in Python 3.11 and 3.12 these are functions
    L = TypeVar("L", Lock, RLock)
import atexit
import dataclasses
import itertools
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar, overload


def hold_over_forks(lock: L) -> L:
    """Make forks wait for a lock. Otherwise a new process might inherit a held lock, but not the thread holding it."""
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock


# the maximum number of bytes of loose patterns' index arrays that one memo keeps; arrays may be in several
LOOSE_BYTES = 1 << 26

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_numbers = itertools.count()
_entries: dict[int, tuple[Memo[Any, Any], Any]] = {}  # number of an entry → the memo that has it, and its key
_memos: list[Memo[Any, Any] | WeakMemo[Any, Any]] = []


class Owner:
    """An object that lives as long as any tensor on certain index arrays, of `nbytes` bytes.

    When it dies, these arrays are loose in the entries of memos whose keys contain them.
    """

    __slots__ = ("__weakref__", "entries", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.entries, self.nbytes = list[int](), nbytes

    def add(self, number: int) -> None:
        """Register an entry of a memo, by its number, whose arrays are loose when this owner dies."""
        self.entries.append(number)
        if len(self.entries) % 1024 == 0:
            self.entries = [n for n in self.entries if n in _entries]

    def __del__(self) -> None:
        for number in self.entries:
            memo, key = _entries.get(number, (None, None))
            entry = None if memo is None else memo.known.get(key)
            if memo is not None and entry is not None and entry.number == number:
                entry.loose += self.nbytes
                memo.loosen(self.nbytes)


_owners: weakref.WeakValueDictionary[bytes, Owner] = weakref.WeakValueDictionary()


@atexit.register
def _release_owners() -> None:
    """Clear all owners as the interpreter ends, because `Owner.__del__` must not use a module that is gone."""
    for owner in list(_owners.values()):
        owner.entries.clear()


class Owned:
    """Base of immutable objects with large arrays, which memos must not keep alive."""

    __slots__ = ("_owner",)
    _owner: weakref.ref[Owner] | None

    def identity(self) -> bytes:
        """A digest of the arrays. Objects with equal digests have one owner."""
        raise NotImplementedError

    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        raise NotImplementedError

    def owner(self) -> Owner:
        """Return the owner, or make one if there is none. A tensor refers to its owner as long as the tensor lives."""
        owner = self.living_owner()
        if owner is None:
            owner = _owners.setdefault(self.identity(), Owner(self.nbytes()))
            object.__setattr__(self, "_owner", weakref.ref(owner))
        return owner

    def living_owner(self) -> Owner | None:
        """The owner, if some tensor keeps it alive; else None."""
        owner = None if self._owner is None else self._owner()
        return _owners.get(self.identity()) if owner is None else owner


class Owning:
    """Base of immutable objects that contain `Owned` objects."""

    __slots__ = ()

    def list_owned(self) -> tuple[Owned, ...]:
        """The `Owned` objects in this object."""
        raise NotImplementedError


class _Entry:
    __slots__ = ("loose", "number", "used", "value")

    def __init__(self, value: Any, loose: int) -> None:
        self.value, self.loose, self.number, self.used = value, loose, next(_numbers), False


class Memo(Generic[P, R]):
    """A function with a cache of its last results. Arguments have to be hashable.

    Eviction is by second chance: entries that were used since the last eviction are evicted last.
    """

    def __init__(self, function: Callable[P, R], maxsize: int) -> None:
        self.function, self.maxsize = function, maxsize
        self.known: dict[Any, _Entry] = {}
        self._queue: deque[int] = deque()  # the numbers of entries, and of some that were removed; next to evict first
        self._loose = 0
        self.__doc__ = function.__doc__
        _memos.append(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        key = (*args, *kwargs.items()) if kwargs else args
        entry = self.known.get(key)
        if entry is None:  # computed outside of a handler: an error of the function is then not raised in one
            return self._compute(key, *args, **kwargs)
        entry.used = True
        return entry.value

    def peek(self, *args: object) -> R | None:
        """The remembered result for these arguments, or None. Nothing is computed."""
        entry = self.known.get(args)
        if entry is None:
            return None
        entry.used = True
        return entry.value

    def _compute(self, key: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        value = self.function(*args, **kwargs)
        owned = {id(x): x for x in _find_owned(key)}.values()
        owners = [(x, x.living_owner()) for x in owned]
        entry = _Entry(value, sum(x.nbytes() for x, owner in owners if owner is None))
        kept = self.known.setdefault(key, entry)
        if kept is not entry:  # the function itself, or another thread, made the entry meanwhile
            return kept.value
        _entries[entry.number] = self, key
        for owner in {id(owner): owner for _, owner in owners if owner is not None}.values():
            owner.add(entry.number)
        self._queue.append(entry.number)
        self.loosen(entry.loose, newest=entry)
        while len(self.known) > self.maxsize and self._evict_oldest(lambda other: other is not entry):
            pass
        return value

    def loosen(self, nbytes: int, newest: _Entry | None = None) -> None:
        """Add to the number of loose bytes, and remove entries until it is at most `LOOSE_BYTES`.

        The newest entry stays, however large it is.
        """
        self._loose += nbytes
        if self._loose <= LOOSE_BYTES:
            return
        self._loose = sum(entry.loose for entry in list(self.known.values()))  # threads may have lost a change of it
        while self._loose > LOOSE_BYTES and self._evict_oldest(lambda other: other.loose > 0 and other is not newest):
            pass

    def _evict_oldest(self, is_candidate: Callable[[_Entry], bool]) -> bool:
        """Remove the first candidate of the queue that was not used since its last turn; False if there is none."""
        for _ in range(2 * len(self._queue)):  # by then, every entry has had its second chance
            number = self._queue.popleft()
            _, key = _entries.get(number, (None, None))
            entry = self.known.get(key)
            if entry is None or entry.number != number:  # it was removed
                continue
            if is_candidate(entry) and not entry.used:
                _remove(number)
                return True
            entry.used = entry.used and not is_candidate(entry)
            self._queue.append(number)
        return False

    def clear(self) -> None:
        """Remove all entries."""
        for entry in list(self.known.values()):
            _remove(entry.number)
        self._queue.clear()


class WeakMemo(Generic[P, R]):
    """A function of an object and of other, hashable arguments, with a cache of all results.

    The results are removed when the object dies, so no result may refer to the object. For example, the object is a
    jaxpr whose parameters contain patterns.
    """

    def __init__(self, function: Callable[P, R]) -> None:
        self.function = function
        self.known: weakref.WeakKeyDictionary[Any, dict[Any, R]] = weakref.WeakKeyDictionary()
        self.__doc__ = function.__doc__
        _memos.append(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        first, *others = args
        results = self.known.setdefault(first, {})
        key = (*others, *kwargs.items())
        if key not in results:
            results[key] = self.function(*args, **kwargs)
        return results[key]

    def clear(self) -> None:
        """Remove all entries."""
        self.known.clear()


def memoize_weakly(function: Callable[P, R]) -> WeakMemo[P, R]:
    """Decorate a function with a memo whose results are removed when the first argument dies."""
    return WeakMemo(function)


def memoize(maxsize: int) -> Callable[[Callable[P, R]], Memo[P, R]]:
    """Decorate a function with a memo of at most `maxsize` results, as `functools.lru_cache` does."""
    return lambda function: Memo(function, maxsize)


def forget_everything() -> None:
    """Empty all memos."""
    for memo in _memos:
        memo.clear()


class lazy(Generic[T]):  # noqa: N801
    """A property that is computed at its first use, and then is an attribute.

    It is `functools.cached_property` without the lock that, before Python 3.12, takes most of the time of a small
    property. Two threads may both compute the value, so it has to depend on the object alone.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function, self.__doc__ = function, function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> T | lazy[T]:
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.function(instance)
        return value


def _remove(number: int) -> None:
    """Remove an entry from its memo. An owner may die at any time, so this may run even while a memo adds an entry."""
    memo, key = _entries.pop(number, (None, None))
    entry = None if memo is None else memo.known.get(key)
    if memo is not None and entry is not None and entry.number == number:
        memo.known.pop(key, None)
        memo._loose -= entry.loose


def _find_owned(x: Any) -> Iterator[Owned]:
    """Yield every `Owned` object that an argument of a memo is or contains."""
    if isinstance(x, Owned):
        yield x
    elif isinstance(x, Owning):
        yield from x.list_owned()
    elif isinstance(x, tuple | list | frozenset):
        for item in x:
            yield from _find_owned(item)
    elif dataclasses.is_dataclass(x) and not isinstance(x, type):
        for field in dataclasses.fields(x):
            yield from _find_owned(getattr(x, field.name))
