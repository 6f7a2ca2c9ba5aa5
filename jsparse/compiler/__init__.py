"""The compiler: from an assignment over typed tensors to machine code. It does not depend on JAX."""
