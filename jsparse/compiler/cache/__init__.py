"""The cache of kernels' object code on disk, which processes share.

    entry.py     one kernel: the digest of everything that its machine code depends on, and its bytes, which are checked
                 when they are read
    folder.py    files that are read, published and removed while other processes do the same; the folder that this
                 process uses
    store.py     the interface for the run time, which never fails; it warns once

Nothing here needs JAX.
"""

from jsparse.compiler.cache.folder import location
from jsparse.compiler.cache.store import clear, load, report, save

__all__ = ["clear", "load", "location", "report", "save"]
