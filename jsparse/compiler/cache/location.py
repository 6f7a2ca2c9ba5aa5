"""The location of the cache folder of this process."""

from __future__ import annotations

from functools import cache

from jsparse.compiler.cache.folder import Folder

__all__ = ["MOST_BYTES", "CacheLocation", "find_users_folder", "location"]

MOST_BYTES = 256 << 20  # about 20,000 kernels


class CacheLocation:
    """The cache's settings in `jsparse.config`, one set for the whole process."""

    def __init__(self) -> None:
        self.is_users = True  # use the user's default folder, which is looked up on first use
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
        """The folder that is read and written; None for none."""
        path = self.cache_dir
        return None if path is None else Folder(path, self.cache_bytes)


@cache
def find_users_folder() -> str:
    """The jsparse folder in the user's cache directory."""
    import platformdirs  # noqa: PLC0415  it takes 2 ms, which importing jsparse avoids

    try:
        return platformdirs.user_cache_dir("jsparse")
    except RuntimeError:  # the user has no home directory; older releases of platformdirs return this path
        return "~/.cache/jsparse"


location = CacheLocation()
"""The location for this process."""
