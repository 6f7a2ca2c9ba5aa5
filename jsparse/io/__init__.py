"""Tensors in files: NumPy archives, Matrix Market, and FROSTT."""

from jsparse.io.files import load, save

__all__ = ["load", "save"]
