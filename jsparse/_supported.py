"""The releases of JAX that this package is tested with. It is imported before all names that a release may lack."""

from __future__ import annotations

import jax

OLDEST = (0, 8)
NEWEST = (0, 12)


def require_supported() -> None:
    """Raise ImportError if JAX is too old. A newer release may work, and pip's requirements exclude it."""
    if jax.__version_info__ < OLDEST:
        oldest, newest = (".".join(map(str, version)) for version in (OLDEST, NEWEST))
        raise ImportError(
            f"jsparse works with JAX {oldest} to {newest}, but JAX {jax.__version__} is installed; "
            f'pip install --upgrade "jax>={oldest}" installs one that it works with'
        )


require_supported()
