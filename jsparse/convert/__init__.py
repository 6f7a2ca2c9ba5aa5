"""Conversion: from other libraries' arrays to tensors, back to them, and from one format to another."""
