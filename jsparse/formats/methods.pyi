"""Methods that `jsparse.ops.methods` installs. Written by `python tools/stubs.py`.

Editors follow an import in a class to the file of the function. mypy rejects such imports, so it reads signatures.
"""

# mypy: disable-error-code="unreachable"

from collections.abc import Sequence
from typing import Any

import jax
from jax.typing import ArrayLike, DTypeLike
from matplotlib.axes import Axes

from jsparse.tensor.sparse_tensor import SparseTensor, TensorLike

MYPY = False  # mypy takes it for True

class PatternMethods:
    if not MYPY:
        from jsparse.ops.indexing.getitem import getitem as __getitem__
        from jsparse.ops.indexing.getitem import take as take
        from jsparse.ops.patterns.values import astype as astype
        from jsparse.ops.patterns.values import todense as todense
        from jsparse.ops.picture import as_html as _repr_html_
        from jsparse.ops.picture import as_treescope as __treescope_repr__
        from jsparse.ops.picture import spy as spy
    if 0:  # which only mypy reads
        def __getitem__(self, index: Any) -> Any: ...
        def __treescope_repr__(self, path: str | None, subtree_renderer: object) -> object: ...
        def _repr_html_(self) -> str: ...
        def spy(self, *, ax: Axes | None = None, **options: object) -> Axes: ...
        def take(
            self, indices: ArrayLike | Sequence[int], axis: int | None = None, *, nse: int | None = None
        ) -> Any: ...
        def todense(self) -> jax.Array: ...
        def astype(self, dtype: DTypeLike) -> SparseTensor: ...
    def __mul__(self, other: TensorLike) -> Any: ...
    def __rmul__(self, other: TensorLike) -> Any: ...
