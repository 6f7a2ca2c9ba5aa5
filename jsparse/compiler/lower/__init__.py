"""Loop nest → KernelIR. The entry point is `lower.py`; the run time can use `storage.py` without it."""
