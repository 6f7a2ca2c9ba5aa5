"""The JAX primitives of jsparse. Each has one file with all of its rules."""
