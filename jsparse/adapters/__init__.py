"""Adapters: other libraries' operations, computed by jsparse's primitives."""
