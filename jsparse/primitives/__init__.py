"""The JAX primitives of jsparse. Each has one file with all of its rules, except lowerings (`lowerings.py`)."""

import jsparse.primitives.lowerings  # noqa: F401
