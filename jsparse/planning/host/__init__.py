"""Host programs: einsums of patterns that are new, outside jit, by kernels that were planned for patterns like them.

A plan is made for the patterns of its operands, because prices depend on their entries. In a stream of small tensors
each tensor has its own pattern, and a plan takes ten times as long as its kernels. So the first plan of each *kind* of
operands leaves a `HostProgram`: its kernels, and the storage orders in which they walk the operands. The program runs
them on the index arrays of other patterns of the kind.

Invariant: a kernel is right for every pattern with the levels for which it was compiled, and a result has the pattern
and the format that its own plan would give it. Only prices depend on the pattern for which the kind was planned.
Operands of a kind agree in shapes, formats and dtypes, in which of them share index arrays, and in the number of
entries up to a factor of two.
"""
