"""Object code of kernels on disk, so that a process finds what an earlier one compiled.

    entry.py    one kernel as bytes, checked when they are read
    key.py      what machine code depends on besides its recipe
    folder.py   files that are read, published and removed while other processes do the same
    place.py    which folder, for this process
    store.py    what the run time calls; it never fails, it warns once

Nothing here needs JAX.
"""

from jsparse.compiler.cache.place import place
from jsparse.compiler.cache.store import clear, load, report, save

__all__ = ["clear", "load", "place", "report", "save"]
