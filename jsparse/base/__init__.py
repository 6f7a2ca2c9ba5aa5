"""Helpers for all other packages: memos, size limits, checks of arrays, the machine. They know no tensor, no format."""
