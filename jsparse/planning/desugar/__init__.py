"""Desugaring: statements with indirect accesses, minima or assignments become sums of products."""
