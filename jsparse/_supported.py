"""The systems, the builds of Python and the releases of JAX that this package works with.

This module is imported first, since other modules use functions of the system and names of JAX that an unsupported
system or release may lack.
"""

from __future__ import annotations

import sys
import sysconfig

OLDEST = (0, 8)
NEWEST = (0, 12)


def require_system() -> None:
    """Raise ImportError on a system without POSIX, and in a build of Python without the global interpreter lock."""
    if sys.platform not in ("linux", "darwin"):
        found = {"win32": "Windows", "cygwin": "Cygwin"}.get(sys.platform, sys.platform)
        advice = "; the Windows Subsystem for Linux runs Linux's wheel" if found in ("Windows", "Cygwin") else ""
        raise ImportError(f"jsparse works on Linux and macOS, but this system is {found}{advice}")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        release = ".".join(map(str, sys.version_info[:2]))
        raise ImportError(
            f"jsparse works with the builds of Python that have the global interpreter lock, but this is a "
            f"free-threaded one (python{release}t); python{release} without the t works"
        )


def require_jax() -> None:
    """Raise ImportError if JAX is too old. A release after `NEWEST` may work; only pip's requirements exclude it."""
    import jax  # noqa: PLC0415  a system that is refused may be one without JAX

    if jax.__version_info__ < OLDEST:
        oldest, newest = (".".join(map(str, version)) for version in (OLDEST, NEWEST))
        raise ImportError(
            f"jsparse works with JAX {oldest} to {newest}, but JAX {jax.__version__} is installed; "
            f'pip install --upgrade "jax>={oldest}" installs one that it works with'
        )


require_system()
require_jax()
