"""Locks that a forked process finds free."""

from __future__ import annotations

import os
from threading import Lock, RLock
from typing import TYPE_CHECKING, TypeVar

__all__ = ["held_over_forks"]

if TYPE_CHECKING:  # in Python 3.11 and 3.12 these are functions
    L = TypeVar("L", Lock, RLock)


def held_over_forks(lock: L) -> L:
    """Let a fork wait for a lock. Otherwise a thread that the new process lacks might hold it there forever."""
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
    return lock
