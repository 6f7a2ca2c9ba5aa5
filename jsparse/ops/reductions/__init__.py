"""Reductions of sparse tensors: numpy's, in which elements that are not stored are 0, or over stored entries only."""
