"""Relocations: the stored entries of tensors at other coordinates, in a tensor of another shape.

Most functions that reshape tensors are a map of coordinates (`coordinate_map.py`). `relocate.py` applies it, for static
and dynamic patterns alike.
"""
