"""Reductions of sparse tensors: over all elements, with 0 for elements that are not stored, or over stored entries."""
