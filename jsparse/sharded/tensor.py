"""`ShardedTensor`: a matrix whose rows are divided among the devices of a mesh axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Never

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike, DTypeLike

from jsparse._compat import mesh_of_trace
from jsparse.base.dataclass import dataclass
from jsparse.errors import JsparseError, NotYetSupportedError, ShapeError
from jsparse.sharded.exchange import Exchange
from jsparse.tensor.overriding import Arguments, Options, Overriding
from jsparse.tensor.sparse_tensor import SparseTensor

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The functions of jsparse, and methods, that sharded tensors compute: `function(S, *arguments)`.

`operations.py` and `build.py` enter theirs; the package imports them.
"""


@dataclass(frozen=True)
class ShardedLayout:
    """The static data of a sharded tensor.

    Attributes:
        shape: the shape of the matrix.
        nse: the number of its stored entries.
        mesh, axis: the mesh, and the name of the axis whose devices divide the rows.
        exchange: how rows of a dense operand reach the devices.
        block: the structure of a device's tensor, as a pytree.
        digest: a digest of the entries and of their division. It is part of the paths of leaves.
    """

    shape: tuple[int, int]
    nse: int
    mesh: Mesh
    axis: str
    exchange: Exchange
    block: Any
    digest: str


@jax.tree_util.register_pytree_with_keys_class
class ShardedTensor(Overriding):
    """A matrix in csr whose rows are divided among the devices of a mesh axis. `jsparse.shard` makes it.

        >>> mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
        >>> S = jsparse.shard(A, mesh, "x")
        >>> Y = S @ X  # X and Y are divided by rows, too
        >>> gradient = jax.grad(lambda values: (S.with_values(values) @ X).sum())(S.values)

    It is one global object, like a `jax.Array`. Device d has rows d m/D to (d + 1) m/D of the matrix, and the same
    part of the rows of dense operands. Rows of X that a device's columns need come from the other devices
    (`jsparse.explain` of a product says how many bytes they are).

    It computes `S @ X`; `jsparse.einsum` with "ij,jk->ik", "ij,j->i", "ij,ik->jk" and "ij,i->j"; products sampled at
    its entries; `S.map`, `S * number`, `S.sum(1)`, `jsparse.softmax(S, 1)`; and `jsparse.sparse_attention(q, k, v, S)`.
    Every other function needs rows of other devices, and raises NotYetSupportedError: call `S.gather()` to gather the
    matrix.

    Inside a `jax.shard_map` whose in_specs give the tensor as `P(axis)`, `S.block` is the device's SparseTensor, and
    `S.halo(x)` the rows that its columns read. All operations are written with these two.
    """

    def __init__(
        self, leaves: Sequence[jax.Array], tables: Sequence[jax.Array], columns: jax.Array, layout: ShardedLayout
    ) -> None:
        self._leaves, self._tables, self._columns, self.layout = tuple(leaves), tuple(tables), columns, layout

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        return self.layout.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions, 2."""
        return 2

    @property
    def nse(self) -> int:
        """The number of stored entries of the matrix, without padding."""
        return self.layout.nse

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def values(self) -> jax.Array:
        """The values of all devices' blocks (devices, slots): padded, and in the order of a block's columns."""
        return self._leaves[0]

    @property
    def sharding(self) -> NamedSharding:
        """The sharding of all leaves: their first axis is divided."""
        return NamedSharding(self.layout.mesh, PartitionSpec(self.layout.axis))

    @property
    def addressable_shards(self) -> list[SparseTensor]:
        """The blocks of the devices of this process, whose columns are numbered like the rows of `S.halo(x)`."""
        ordered = (sorted(x.addressable_shards, key=lambda shard: shard.index[0].start or 0) for x in self._leaves)
        return [self._block([jnp.asarray(np.asarray(x.data)[0]) for x in of]) for of in zip(*ordered, strict=True)]

    def _block(self, leaves: Sequence[jax.Array]) -> SparseTensor:
        return jax.tree.unflatten(self.layout.block, leaves)

    def with_values(self, values: jax.Array) -> ShardedTensor:
        """Return the tensor with other values (devices, slots), in the order of `S.values`."""
        if np.shape(values) != np.shape(self.values):
            raise ShapeError(f"Expected values of shape {np.shape(self.values)}, but got {np.shape(values)}.")
        return ShardedTensor((values, *self._leaves[1:]), self._tables, self._columns, self.layout)

    # ---- inside of shard_map

    @property
    def is_local(self) -> bool:
        """Whether this is the part of one device: the code runs inside a `shard_map` over the axis."""
        mesh = mesh_of_trace()
        kinds = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
        return kinds.get(self.layout.axis) == jax.sharding.AxisType.Manual

    @property
    def block(self) -> SparseTensor:
        """The device's rows as a dynamic SparseTensor (m / D, own rows + halo), inside a `shard_map`."""
        self._check_local("block")
        return self._block([x[0] for x in self._leaves])

    def halo(self, x: jax.Array) -> jax.Array:
        """Return the rows of X that the columns of `S.block` read, inside a `shard_map`.

        Args:
            x: the device's rows of X (n / D, ...).
        """
        self._check_local("halo(x)")
        if x.shape[0] != self.layout.exchange.own:
            raise ShapeError(f"Expected {self.layout.exchange.own} rows in S.halo(x), but got shape {x.shape}.")
        return self.layout.exchange.extend(x, [table[0] for table in self._tables], self.layout.axis)

    def _check_local(self, name: str) -> None:
        if not self.is_local:
            raise NotYetSupportedError(
                f"Expected S.{name} inside jax.shard_map(..., in_specs=P({self.layout.axis!r})) over the mesh of S. "
                "Outside, S @ X computes with all blocks, and S.addressable_shards has the blocks of this process."
            )

    # ---- operations

    def _call(self, name: str, args: Arguments, kwargs: Options) -> Any:
        """Compute a function of jsparse that has this tensor among its arguments."""
        if name not in FUNCTIONS:
            raise self._refusal(f"jsparse.{name}")
        return FUNCTIONS[name](self, *args, **kwargs)

    def _refusal(self, text: str) -> JsparseError:
        """The error for a function that needs other rows."""
        return NotYetSupportedError(
            f"Expected an operation on the rows of a ShardedTensor, but {text} needs the rows of other devices. Gather "
            "it: S.gather()."
        )

    def __matmul__(self, x: ArrayLike) -> jax.Array:
        return self._call("matmul", (x,), {})

    def map(self, function: Callable[..., Any]) -> ShardedTensor:
        """Apply an elementwise function to the stored values. Padding stays 0."""
        return self._call("map", (function,), {})

    def sum(self, axis: int) -> jax.Array:
        """The sums of rows (axis=1) or of columns (axis=0), divided among the devices.

        Raises ShapeError for an axis out of range, NotYetSupportedError for both axes.
        """
        return self._call("sum", (axis,), {})

    def __mul__(self, number: ArrayLike) -> ShardedTensor:
        if np.shape(number):
            raise self._refusal("a product with an array")
        return self.with_values(self.values * number)

    __rmul__ = __mul__

    def __truediv__(self, number: ArrayLike) -> ShardedTensor:
        if np.shape(number):
            raise self._refusal("a quotient with an array")
        return self.with_values(self.values / number)

    def __neg__(self) -> ShardedTensor:
        return self.with_values(-self.values)

    def astype(self, dtype: DTypeLike) -> ShardedTensor:
        """Return the tensor with values of another dtype."""
        return self.with_values(self.values.astype(dtype))

    def gather(self) -> SparseTensor:
        """Return the whole matrix in csr, with entries in csr's order, on each process.

        Its pattern is static, so the index arrays have to be known. Values may be traced and differentiated.
        """
        return self._call("gather", (self._leaves, self._columns), {})

    def __getattr__(self, name: str) -> Never:
        if not name.startswith("_") and hasattr(SparseTensor, name):
            raise AttributeError(str(self._refusal(f"A.{name}")))
        raise AttributeError(f"'ShardedTensor' object has no attribute {name!r}")

    def __repr__(self) -> str:
        layout = self.layout
        slots = np.shape(self.values)[-1]
        mean = layout.nse / layout.exchange.devices
        full = f"the fullest of {layout.exchange.devices} devices has {slots / max(mean, 1):.2f} times the mean"
        kind = f"shape={self.shape}, dtype={self.dtype}, nse={self.nse:,}"
        return f"ShardedTensor({kind}, rows over {layout.axis!r}, {full})"

    # ---- pytree

    def tree_flatten_with_keys(self) -> tuple[list[tuple[jax.tree_util.DictKey, jax.Array]], tuple[int, ShardedLayout]]:
        """The leaves, which all have the device axis first, and the static data."""
        key = f"rows@{self.layout.digest[:16]}"
        named = [
            (jax.tree_util.DictKey(f"{key}/{n}"), x)
            for n, x in enumerate((*self._leaves, *self._tables, self._columns))
        ]
        return named, (len(self._leaves), self.layout)

    @classmethod
    def tree_unflatten(cls, static: tuple[int, ShardedLayout], leaves: Sequence[jax.Array]) -> ShardedTensor:
        """Put the tensor together again."""
        count, layout = static
        *others, columns = leaves
        return cls(others[:count], others[count:], columns, layout)
