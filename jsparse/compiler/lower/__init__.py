"""Loop nest → KernelIR. `lower.py` does it; the run time needs the rest of this package without it."""
