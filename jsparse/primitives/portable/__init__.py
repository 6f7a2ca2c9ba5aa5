"""What primitives compute, as operations of XLA alone: for platforms that have no kernels of jsparse."""
