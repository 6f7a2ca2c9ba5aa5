"""Chains: jaxprs of jsparse operations, and of elementwise operations between them, that run as one kernel.

    jaxpr ──translate──> Chain (statements, patterns, operands) ──plan──> one kernel call

`expand` replaces calls by their parts, `variables` finds out which axes run over the same coordinates, `drafts` holds
statements before their index variables have names, `equations` turns equations into drafts, `inline` merges drafts
whose results need no array, `translate` puts these steps together, and `execute` calls the kernel. `grouping` cuts a
jaxpr into chains, and `recomputation` decides which values several chains compute.
"""
