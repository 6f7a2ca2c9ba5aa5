"""KernelIR → an address, by one of several code generators (`table.py`)."""
