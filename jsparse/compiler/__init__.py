"""From an assignment over typed tensors to machine code. Knows nothing of JAX."""
