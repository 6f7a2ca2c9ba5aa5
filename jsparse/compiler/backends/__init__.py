"""Code generators: KernelIR → an address in this process."""
