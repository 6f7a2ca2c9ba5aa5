"""Indexing: `A[...]`, `A.take`, `A.coords` and `A.at_coords`.

`items` and `index` read an index into a `selection`: slices of some dimensions, index tables of the others. `select`
finds it in one of three ways. `static` finds entries of a static pattern on the host, level by level (`entries`).
`mapped` maps the coordinates of a dynamic pattern. `tables` makes index tables that are traced into index relations of
an einsum. `points` and `locate` read single elements.
"""
