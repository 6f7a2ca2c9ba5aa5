"""`jsparse.sparsify`: functions written for dense arrays, applied to sparse tensors.

A function is traced to a jaxpr, which the interpreter in `sparsify` evaluates. The values of the jaxpr are arrays,
sparse tensors with a background (`sparse_value`), and arrays whose elements are computed on demand (`deferred`).
`rules` has the table with a rule for each primitive; the other files define these rules.
"""
