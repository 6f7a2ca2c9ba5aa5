"""Reductions of sparse tensors: numpy's, where entries that are not stored are 0, and those over stored entries."""
