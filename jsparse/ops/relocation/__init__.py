"""Relocations move the stored entries of tensors to other coordinates, in a tensor of another shape.

Most functions that reshape tensors only state a map of coordinates (`coordinate_map.py`). `relocate.py` applies the
map, to static and dynamic patterns alike.
"""
