"""From operands and their indices to the primitives: what is computed, and where its result is stored."""
