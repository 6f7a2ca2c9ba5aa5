"""Prices of nests and of their gathers. The constants of the machine are in `compiler.cpu_model`."""
