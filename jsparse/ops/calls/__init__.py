"""Functions in statements: each call becomes a tensor, so that no call is left in the statement."""
