"""Conversion between formats, and between static and dynamic patterns: methods of SparseTensor."""

from __future__ import annotations

from jsparse.base.limits import check_bytes, check_capacity, parse_nse
from jsparse.convert.choice import choose_format
from jsparse.convert.composed import to_composed, to_plain
from jsparse.convert.dynamic_creation import convert_dynamic, with_derived, with_parents
from jsparse.formats import Format, Pattern
from jsparse.formats.composed import ComposedFormat
from jsparse.formats.dynamic import sufficient_nse
from jsparse.formats.format import is_auto
from jsparse.formats.relayout import relayout_to
from jsparse.primitives.host import pad_values
from jsparse.primitives.permute_values import permute_values
from jsparse.tensor.composed import ComposedTensor, Composition
from jsparse.tensor.dynamic_pattern import DynamicPattern, dynamic_type
from jsparse.tensor.leaves import check_leaves
from jsparse.tensor.sparse_tensor import SparseTensor, dense_levels


def asformat(self: SparseTensor, format: Format | ComposedFormat | str, *, nse: int | None = None) -> SparseTensor:
    """Convert to another format. Every stored entry is kept, and the conversion is differentiable.

    Args:
        format: a format, or its name or notation, such as "csc" or "(i, j) -> (j : compressed, i : compressed)".
            "auto" chooses one for static entries (see `jsparse.choose_format`).
        nse: for a dynamic tensor, the capacity of the result; by default enough for as many entries as the present
            capacity allows. For a static tensor, `nse` is an upper bound, which is checked.

    A dynamic tensor stays dynamic, unless all levels of the format are dense: then there are no index arrays.

        >>> A.asformat("csc")

    Shape and dtype stay the same. Raises FormatError or SubscriptError for an invalid format, PatternError if the
    entries exceed `nse`.
    """
    if is_auto(format):
        return choose_format(self).convert(self)
    target = Format.of(format, self.ndim)
    if isinstance(self, ComposedTensor):
        return self if target == self.format else to_plain(self).asformat(target, nse=nse)
    check_leaves(self, "A in A.asformat")
    nse = parse_nse(nse, "asformat")
    if isinstance(target, ComposedFormat):
        return to_composed(self, target, nse)
    if isinstance(self.pattern, Pattern):
        relayout = relayout_to(self.pattern, target)
        count = relayout.target.nse
        check_capacity(count, nse, lambda: f"the slots that {self!r} has in {target.name}")
        check_bytes((count,), self.dtype, "the values in another format", "Use a format with fewer dense levels.")
        values = self.values if relayout.is_identity else permute_values(self.values, relayout)
        return SparseTensor._wrap(values, relayout.target)
    if target.is_dense:
        return dense_levels(self.todense(), target)
    if target == self.format and nse is None:
        return self
    nse = sufficient_nse(self.pattern.type, target) if nse is None else nse
    return convert_dynamic(self, dynamic_type(self.shape, target, nse))


def dynamic(self: SparseTensor, nse: int | None = None) -> SparseTensor:
    """Convert to a dynamic pattern with a capacity of `nse` slots, by default the present number of slots.

    The index arrays become leaves of the pytree, so one compiled program serves all tensors with the same shape,
    format and nse.

        >>> A.dynamic(nse=10_000)

    Shape and dtype stay. Raises PatternError if the entries exceed `nse`, NotYetSupportedError for formats that store
    no coordinates.
    """
    check_leaves(self, "A in A.dynamic")
    nse = parse_nse(nse, "dynamic")
    if isinstance(self.pattern, DynamicPattern):
        type_ = self.pattern.type if nse is None else dynamic_type(self.shape, self.format, nse)
        return self if type_ == self.pattern.type else convert_dynamic(self, type_)
    check_capacity(self.nse, nse, lambda: f"the slots of {self!r}")
    type_ = dynamic_type(self.shape, self.format, self.nse if nse is None else nse)
    pattern = DynamicPattern.pad_static(self.pattern, type_)
    return SparseTensor._wrap(pad_values(self.values, type_.nse), pattern)


def with_transpose(self: SparseTensor) -> SparseTensor:
    """Add a transposed index to a dynamic tensor. Products that need the reverse storage order then use it.

    Static patterns make their transposed indices on first use, so a static tensor is returned unchanged.

        >>> A = A.dynamic().with_transpose()
        >>> jsparse.einsum("ij,ik->jk", A, Y)  # walks columns, in parallel

    Shape and dtype stay the same. Raises LeafError if the leaves do not fit the pattern.
    """
    check_leaves(self, "A in A.with_transpose")
    if isinstance(self.pattern, Pattern):
        return self
    return SparseTensor._wrap(self.values, with_derived(self.pattern))


def with_rows(self: SparseTensor) -> SparseTensor:
    """Add the row of each entry to a dynamic tensor. Products on GPUs and TPUs then need not find it.

    In csr, only pointers say which entries belong to a row. Programs of XLA operations (see `jsparse.config.backend`)
    compute the row of each entry from them in every product, by running sums over all entries. This method computes the
    rows once and stores them beside the pointers, which takes 4 bytes for each entry (8 if indices are int64). In other
    formats, "row" means the parent: the position in the level above. coo stores its rows already, so it is returned
    unchanged, and so are static tensors. Kernels on CPU walk the pointers and ignore the rows.

        >>> A = A.dynamic().with_rows()
        >>> jax.jit(lambda A, x: A @ x)(A, x)  # on a GPU, without running sums

    Conversions to another format or capacity drop the rows. Shape and dtype stay the same. Raises LeafError if the
    leaves do not fit the pattern.
    """
    check_leaves(self, "A in A.with_rows")
    if isinstance(self.pattern, Pattern):
        return self
    return SparseTensor._wrap(self.values, with_parents(self.pattern))


def with_index_of(tensor: SparseTensor, other: Pattern | DynamicPattern | Composition) -> SparseTensor:
    """Add a transposed index and rows to a tensor if `other`, the pattern that it was made from, has them."""
    if not isinstance(other, DynamicPattern):
        return tensor
    tensor = with_transpose(tensor) if other.derived else tensor
    return with_rows(tensor) if other.has_parents else tensor
