"""The cache of kernels' object code on disk, which processes share.

    entry.py     one kernel as bytes, which are checked when they are read
    key.py       the digest of everything that machine code depends on
    folder.py    files that are read, published and removed while other processes do the same
    location.py  the folder that this process uses
    store.py     the interface for the run time, which never fails; it warns once

Nothing here needs JAX.
"""

from jsparse.compiler.cache.location import location
from jsparse.compiler.cache.store import clear, load, report, save

__all__ = ["clear", "load", "location", "report", "save"]
