"""Helpers for all other packages: memos, size limits, checks of arrays. They know no tensor and no format."""
