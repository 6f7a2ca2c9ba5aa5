"""The JAX primitives of jsparse. Each primitive has one file with all of its rules, except lowerings.

`lowerings.py` has the lowerings, and is imported when a primitive is first applied.
"""
