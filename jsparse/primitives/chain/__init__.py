"""Chains: jaxprs of our operations, and of elementwise ones between them, that run as one kernel.

    jaxpr ──translate──> Chain (statements, patterns, operands) ──plan──> one kernel call

`expand` takes calls apart, `variables` finds out which axes run over the same coordinates, `drafts` holds statements
before their index variables have names, `equations` makes drafts of equations, `inline` merges those that need no array
of their own, `translate` puts these steps together, and `execute` calls the kernel. `grouping` cuts a jaxpr into
chains, and `recomputation` decides which values two chains both compute.
"""
