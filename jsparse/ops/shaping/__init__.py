"""Functions that reshape, join and reorder tensors."""
