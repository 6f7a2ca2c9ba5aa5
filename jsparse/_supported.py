"""The systems, the builds of Python and the releases of JAX that this package works with.

This module is imported first, because other modules use functions of the system and names of JAX that an unsupported
system or release may lack.
"""

from __future__ import annotations

import sys
import sysconfig
import warnings

OLDEST = (0, 8)  # the requirement of pyproject.toml
NEWEST = (0, 12)  # the newest release that the tests run with


def require_system() -> None:
    """Raise ImportError on a system without POSIX, and in a build of Python without the global interpreter lock."""
    if sys.platform not in ("linux", "darwin"):
        system = {"win32": "Windows", "cygwin": "Cygwin"}.get(sys.platform, sys.platform)
        advice = "; the Windows Subsystem for Linux runs Linux's wheel" if system in ("Windows", "Cygwin") else ""
        raise ImportError(f"jsparse works on Linux and macOS, but this system is {system}{advice}")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        release = ".".join(map(str, sys.version_info[:2]))
        raise ImportError(
            "jsparse works with the builds of Python that have the global interpreter lock, but this build is "
            f"free-threaded (python{release}t); python{release} without the t works"
        )


def require_jax() -> None:
    """Raise ImportError if JAX is too old, and warn of a release after `NEWEST`, which nobody has tried."""
    import jax  # noqa: PLC0415  a system that is refused may be one without JAX

    oldest, newest = (".".join(map(str, version)) for version in (OLDEST, NEWEST))
    if jax.__version_info__ < OLDEST:
        raise ImportError(
            f"jsparse works with JAX {oldest} to {newest}, but JAX {jax.__version__} is installed; "
            f'pip install --upgrade "jax>={oldest}" installs a version that works'
        )
    if jax.__version_info__[:2] > NEWEST:
        below = f"{NEWEST[0]}.{NEWEST[1] + 1}"
        warnings.warn(
            f"jsparse was tested with JAX {oldest} to {newest}, but JAX {jax.__version__} is installed. If "
            f'something fails, look for a newer jsparse, or pip install "jax<{below}", a release that was tested.',
            stacklevel=2,
        )


require_system()
require_jax()
