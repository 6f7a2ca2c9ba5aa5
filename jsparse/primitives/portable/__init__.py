"""What primitives compute, as operations of XLA: for platforms that have no kernels of jsparse.

Products of blocks may have kernels in Pallas."""
