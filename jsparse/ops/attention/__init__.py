"""Sparse attention, with the arguments of jsparse, of jax.nn and of Flax."""
