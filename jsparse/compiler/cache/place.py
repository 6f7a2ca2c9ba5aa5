"""Which folder holds the kernels of this process."""

from __future__ import annotations

from functools import cache

from jsparse.compiler.cache.folder import Folder

__all__ = ["MOST_BYTES", "Place", "find_users_folder", "place"]

MOST_BYTES = 256 << 20  # some 20,000 kernels


class Place:
    """What `jsparse.config` says of the cache. It is one for the whole process."""

    def __init__(self) -> None:
        self.is_users = True  # the user's own folder, which is looked up when it is needed
        self.chosen: str | None = None
        self.cache_bytes = MOST_BYTES

    @property
    def cache_dir(self) -> str | None:
        """The folder's path, or None for none."""
        return find_users_folder() if self.is_users else self.chosen

    @cache_dir.setter
    def cache_dir(self, path: str | None) -> None:
        self.chosen, self.is_users = path, False

    def folder(self) -> Folder | None:
        """What is read and written."""
        path = self.cache_dir
        return None if path is None else Folder(path, self.cache_bytes)


@cache
def find_users_folder() -> str:
    """The folder that the system has for what this user can do without."""
    import platformdirs  # noqa: PLC0415  2 ms that importing jsparse does not need

    try:
        return platformdirs.user_cache_dir("jsparse")
    except RuntimeError:  # no home is known; older releases return such a path
        return "~/.cache/jsparse"


place = Place()
"""Of this process."""
