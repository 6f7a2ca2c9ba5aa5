"""The JAX primitives of jsparse, one file each with all its rules."""
