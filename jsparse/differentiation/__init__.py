"""`jsparse.grad` and `jsparse.value_and_grad`: gradients of tensors on their patterns, and of tables as rows.

Where a table's gradient is to have rows, the function is traced to a jaxpr, in which `interpret` finds the lookups and
evaluates them on these rows alone; `lookups` has a rule for each primitive that looks up rows.
"""
