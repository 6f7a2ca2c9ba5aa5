"""Planning: from the operands of an einsum or a statement to the primitives that compute the result."""
