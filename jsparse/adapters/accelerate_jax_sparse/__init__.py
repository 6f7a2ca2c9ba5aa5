"""The products of `jax.experimental.sparse`, lowered to jsparse's kernels."""
