"""Tensors in files: NumPy archives, Matrix Market, and FROSTT."""
