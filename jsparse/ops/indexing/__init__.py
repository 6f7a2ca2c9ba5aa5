"""Indexing: `A[...]`, `A.take`, `A.coords` and `A.at_coords`.

`index` parses an index. The result is a `selection`: slices of some dimensions, and index tables of the other
dimensions. `select` computes the selection in one of three ways. `static` finds entries of a static pattern on the
host, level by level (`static_entries`). `select_mapped` maps the coordinates of a dynamic pattern. `traced` takes index
tables that are known only at run time. `at_coords` reads single elements.
"""
