"""Code generators: KernelIR → machine code in this process, one folder each."""
