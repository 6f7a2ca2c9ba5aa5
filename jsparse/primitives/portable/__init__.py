"""The primitives as XLA operations, for platforms on which jsparse has no kernels.

Products of blocks may have kernels in Pallas."""
