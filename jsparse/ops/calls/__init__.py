"""Functions in statements: calls become tensors, so that a statement with calls is one without."""
