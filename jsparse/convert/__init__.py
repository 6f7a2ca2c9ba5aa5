"""Tensors from other arrays, to them, and from one format to another."""
