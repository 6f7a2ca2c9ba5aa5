"""`jsparse.grad` and `jsparse.value_and_grad`: gradients of tensors on their patterns, and of tables as rows.

If a table's gradient is requested as rows, the function is traced to a jaxpr. `interpret` finds the lookups in the
jaxpr, and evaluates the jaxpr on the rows that the lookups read. `lookups` has a rule for each primitive that looks up
rows.
"""
