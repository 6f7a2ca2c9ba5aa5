"""`jsparse.sparsify`: functions written for dense arrays, applied to sparse tensors.

A function is traced to a jaxpr, which the interpreter in `sparsify` evaluates. Its values are arrays, sparse tensors
with a background (`sparse_value`) and arrays whose elements are computed where they are needed (`deferred`). `rules` is
the table of what each primitive does with such values; the other files contain its entries.
"""
