"""Indexing: `A[...]`, `A.take`, `A.coords` and `A.at_coords`.

`index` reads an index, `selector` says which coordinates of a dimension it selects. Static patterns are selected on the
host (`entries`, `static`), dynamic ones inside programs (`mapped`); index arrays that are only known at run time become
index relations of an einsum (`tables`, `points`).
"""
