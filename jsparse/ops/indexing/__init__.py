"""Indexing: `A[...]`, `A.take`, `A.coords` and `A.at_coords`.

`index` reads an index into a `selection`: slices of some dimensions, index tables of the others. `select` computes the
selection in one of three ways. `static` finds entries of a static pattern on the host, level by level
(`static_entries`). `select_mapped` maps the coordinates of a dynamic pattern. `traced` takes index tables that are
known at run time only. `at_coords` reads single elements.
"""
