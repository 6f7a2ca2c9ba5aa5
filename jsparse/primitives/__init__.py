"""The JAX primitives of jsparse. Each has one file with all of its rules, except lowerings.

`lowerings.py` has these, and is imported when a primitive is first applied.
"""
