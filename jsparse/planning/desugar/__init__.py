"""Statements with indirect accesses, minima or assignments, as sums of products."""
