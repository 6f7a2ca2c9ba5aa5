"""The JAX primitives of jsparse. Each has one file with all of its rules, but for its lowerings (`lowerings.py`)."""

import jsparse.primitives.lowerings
import jsparse.primitives.softmax_jvp  # noqa: F401
