"""The JAX primitives of jsparse, one file each with all of their rules, but for lowerings (`lowerings.py`)."""

import jsparse.primitives.lowerings  # noqa: F401  no primitive without them
