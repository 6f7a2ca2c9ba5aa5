"""`jsparse.grad` and `jsparse.value_and_grad`: gradients of tensors on their patterns, and gradients of rows.

A gradient of rows is the gradient of a dense table as a SparseTensor of the rows that a function looks up. For such a
gradient, the function is traced to a jaxpr. `interpret` finds the lookups in the jaxpr, and evaluates the jaxpr on the
rows that the lookups read. `lookups` has a rule for each primitive that looks up rows.
"""
