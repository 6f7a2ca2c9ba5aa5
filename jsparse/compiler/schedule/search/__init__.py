"""The search for the cheapest schedule of a statement, or of a program of several statements."""
