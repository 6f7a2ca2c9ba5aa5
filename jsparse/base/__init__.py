"""Helpers for all other packages: memos, size limits, checks of arrays, the machine. None uses tensors or formats."""
