"""The public names of jsparse. Written by `python tools/stubs.py` from `jsparse/_names.py`."""

from typing import overload

import jax
from jax.typing import ArrayLike

from jsparse import equinox as equinox
from jsparse import graph as graph
from jsparse import io as io
from jsparse import lineax as lineax
from jsparse import linen as linen
from jsparse import nn as nn
from jsparse import nnx as nnx
from jsparse import optax as optax
from jsparse import pattern as pattern
from jsparse.adapters.accelerate_jax_sparse.register import accelerate_jax_sparse as accelerate_jax_sparse
from jsparse.compiler.schedule import Schedule as Schedule
from jsparse.convert.choice import choose_format as choose_format
from jsparse.convert.creation import asarray as asarray
from jsparse.convert.decompose import block_fill as block_fill
from jsparse.convert.decompose import decompose as decompose
from jsparse.convert.decompose import row_length as row_length
from jsparse.differentiation.gradients import grad as grad
from jsparse.differentiation.gradients import value_and_grad as value_and_grad
from jsparse.errors import CacheError as CacheError
from jsparse.errors import CacheWarning as CacheWarning
from jsparse.errors import ConfigError as ConfigError
from jsparse.errors import DeletedArrayError as DeletedArrayError
from jsparse.errors import DTypeError as DTypeError
from jsparse.errors import FileFormatError as FileFormatError
from jsparse.errors import FormatError as FormatError
from jsparse.errors import IntegerRangeError as IntegerRangeError
from jsparse.errors import JsparseError as JsparseError
from jsparse.errors import LeafError as LeafError
from jsparse.errors import LinearityError as LinearityError
from jsparse.errors import NotYetSupportedError as NotYetSupportedError
from jsparse.errors import PatternError as PatternError
from jsparse.errors import ScheduleError as ScheduleError
from jsparse.errors import SemiringError as SemiringError
from jsparse.errors import ShapeError as ShapeError
from jsparse.errors import ShardingError as ShardingError
from jsparse.errors import SubscriptError as SubscriptError
from jsparse.formats import Format as Format
from jsparse.formats import Pattern as Pattern
from jsparse.io.files import load as load
from jsparse.io.files import save as save
from jsparse.ops.attention.attention_fn import attention_fn as attention_fn
from jsparse.ops.attention.dot_product_attention import dot_product_attention as dot_product_attention
from jsparse.ops.attention.sparse_attention import sparse_attention as sparse_attention
from jsparse.ops.autotune import autotune as autotune
from jsparse.ops.building.diagonals import diag as diag
from jsparse.ops.building.diagonals import diagonal as diagonal
from jsparse.ops.building.diagonals import trace as trace
from jsparse.ops.building.diagonals import tril as tril
from jsparse.ops.building.diagonals import triu as triu
from jsparse.ops.building.filled import eye as eye
from jsparse.ops.building.filled import full as full
from jsparse.ops.building.filled import full_like as full_like
from jsparse.ops.building.filled import ones as ones
from jsparse.ops.building.filled import ones_like as ones_like
from jsparse.ops.building.filled import zeros as zeros
from jsparse.ops.building.filled import zeros_like as zeros_like
from jsparse.ops.building.products import block_diag as block_diag
from jsparse.ops.building.products import kron as kron
from jsparse.ops.building.products import outer as outer
from jsparse.ops.building.random import random as random
from jsparse.ops.dot import dot as dot
from jsparse.ops.dot import tensordot as tensordot
from jsparse.ops.dot import vecdot as vecdot
from jsparse.ops.einsum import einsum as einsum
from jsparse.ops.elementwise.binary import clip as clip
from jsparse.ops.elementwise.binary import maximum as maximum
from jsparse.ops.elementwise.binary import minimum as minimum
from jsparse.ops.elementwise.binary import pow as pow
from jsparse.ops.elementwise.binary import power as power
from jsparse.ops.elementwise.binary import where as where
from jsparse.ops.elementwise.bounded import add as add
from jsparse.ops.elementwise.bounded import multiply as multiply
from jsparse.ops.elementwise.bounded import subtract as subtract
from jsparse.ops.elementwise.comparisons import allclose as allclose
from jsparse.ops.elementwise.comparisons import array_equal as array_equal
from jsparse.ops.elementwise.comparisons import equal as equal
from jsparse.ops.elementwise.comparisons import greater as greater
from jsparse.ops.elementwise.comparisons import greater_equal as greater_equal
from jsparse.ops.elementwise.comparisons import less as less
from jsparse.ops.elementwise.comparisons import less_equal as less_equal
from jsparse.ops.elementwise.comparisons import not_equal as not_equal
from jsparse.ops.elementwise.dtypes import astype as astype
from jsparse.ops.elementwise.dtypes import can_cast as can_cast
from jsparse.ops.elementwise.dtypes import result_type as result_type
from jsparse.ops.elementwise.operators import bitwise_and as bitwise_and
from jsparse.ops.elementwise.operators import bitwise_invert as bitwise_invert
from jsparse.ops.elementwise.operators import bitwise_or as bitwise_or
from jsparse.ops.elementwise.operators import bitwise_xor as bitwise_xor
from jsparse.ops.elementwise.operators import divide as divide
from jsparse.ops.elementwise.operators import logical_not as logical_not
from jsparse.ops.elementwise.operators import matmul as matmul
from jsparse.ops.evaluate import evaluate as evaluate
from jsparse.ops.explain import explain as explain
from jsparse.ops.export import export as export
from jsparse.ops.fuse import fuse as fuse
from jsparse.ops.indexing.getitem import take as take
from jsparse.ops.indexing.getitem import take_along_axis as take_along_axis
from jsparse.ops.profile import profile as profile
from jsparse.ops.reductions.arg import argmax as argmax
from jsparse.ops.reductions.arg import argmin as argmin
from jsparse.ops.reductions.moments import std as std
from jsparse.ops.reductions.moments import var as var
from jsparse.ops.reductions.nan import nanmax as nanmax
from jsparse.ops.reductions.nan import nanmean as nanmean
from jsparse.ops.reductions.nan import nanmin as nanmin
from jsparse.ops.reductions.nan import nanprod as nanprod
from jsparse.ops.reductions.nan import nansum as nansum
from jsparse.ops.reductions.reductions import all as all
from jsparse.ops.reductions.reductions import any as any
from jsparse.ops.reductions.reductions import count_nonzero as count_nonzero
from jsparse.ops.reductions.reductions import max as max
from jsparse.ops.reductions.reductions import mean as mean
from jsparse.ops.reductions.reductions import min as min
from jsparse.ops.reductions.reductions import prod as prod
from jsparse.ops.reductions.reductions import sum as sum
from jsparse.ops.reductions.softmax import log_softmax as log_softmax
from jsparse.ops.reductions.softmax import logsumexp as logsumexp
from jsparse.ops.reductions.softmax import softmax as softmax
from jsparse.ops.shaping.axes import expand_dims as expand_dims
from jsparse.ops.shaping.axes import matrix_transpose as matrix_transpose
from jsparse.ops.shaping.axes import moveaxis as moveaxis
from jsparse.ops.shaping.axes import permute_dims as permute_dims
from jsparse.ops.shaping.axes import squeeze as squeeze
from jsparse.ops.shaping.axes import swapaxes as swapaxes
from jsparse.ops.shaping.axes import transpose as transpose
from jsparse.ops.shaping.axes import unstack as unstack
from jsparse.ops.shaping.differences import cumulative_sum as cumulative_sum
from jsparse.ops.shaping.differences import diff as diff
from jsparse.ops.shaping.joining import concat as concat
from jsparse.ops.shaping.joining import concatenate as concatenate
from jsparse.ops.shaping.joining import hstack as hstack
from jsparse.ops.shaping.joining import pad as pad
from jsparse.ops.shaping.joining import stack as stack
from jsparse.ops.shaping.joining import vstack as vstack
from jsparse.ops.shaping.norm import norm as norm
from jsparse.ops.shaping.ordering import argsort as argsort
from jsparse.ops.shaping.ordering import nonzero as nonzero
from jsparse.ops.shaping.ordering import sort as sort
from jsparse.ops.shaping.ordering import top_k as top_k
from jsparse.ops.shaping.ordering import unique_counts as unique_counts
from jsparse.ops.shaping.ordering import unique_values as unique_values
from jsparse.ops.shaping.repeating import broadcast_to as broadcast_to
from jsparse.ops.shaping.repeating import repeat as repeat
from jsparse.ops.shaping.repeating import tile as tile
from jsparse.ops.shaping.reshaping import ravel as ravel
from jsparse.ops.shaping.reshaping import reshape as reshape
from jsparse.ops.shaping.rolling import flip as flip
from jsparse.ops.shaping.rolling import roll as roll
from jsparse.ops.surgery.prune import drop_zeros as drop_zeros
from jsparse.ops.surgery.prune import prune as prune
from jsparse.ops.surgery.regrow import regrow as regrow
from jsparse.ops.surgery.restrict import restrict as restrict
from jsparse.ops.trees import values as values
from jsparse.ops.trees import with_values as with_values
from jsparse.primitives.einsum import CHECKPOINT_NAME as CHECKPOINT_NAME
from jsparse.settings import clear_cache as clear_cache
from jsparse.settings import config as config
from jsparse.sharded.build import shard as shard
from jsparse.sharded.tensor import ShardedTensor as ShardedTensor
from jsparse.sparsification.sparsify import sparsify as sparsify
from jsparse.tensor.sparse_tensor import SparseTensor as SparseTensor
from jsparse.tensor.sparse_tensor import TensorLike

__version__: str
EXPORT_CALLS: list[str]

@overload
def abs(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute |x| for each stored entry x of a SparseTensor, on its pattern."""

@overload
def abs(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def abs(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def absolute(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute |x| for each stored entry x of a SparseTensor, on its pattern."""

@overload
def absolute(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def absolute(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def acos(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute arccos x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def acos(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def acos(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def acosh(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute arcosh x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def acosh(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def acosh(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def arccos(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute arccos x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def arccos(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def arccos(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def arccosh(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute arcosh x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def arccosh(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def arccosh(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def arcsin(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute arcsin x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def arcsin(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def arcsin(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def arcsinh(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute arsinh x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def arcsinh(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def arcsinh(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def arctan(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute arctan x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def arctan(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def arctan(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
def arctan2(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute the angle of the point (y, x), arctan2(x, y), for the elements x of A and y of B. Elements not stored are 0."""

@overload
def arctanh(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute artanh x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def arctanh(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def arctanh(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def asin(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute arcsin x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def asin(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def asin(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def asinh(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute arsinh x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def asinh(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def asinh(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def atan(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute arctan x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def atan(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def atan(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
def atan2(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute the angle of the point (y, x), arctan2(x, y), for the elements x of A and y of B. Elements not stored are 0."""

@overload
def atanh(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute artanh x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def atanh(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def atanh(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
def bitwise_left_shift(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute x << y, for the elements x of A and y of B. Elements not stored are 0."""

def bitwise_right_shift(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute x >> y, for the elements x of A and y of B. Elements not stored are 0."""

@overload
def cbrt(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute the cube root of x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def cbrt(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def cbrt(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def ceil(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute ⌈x⌉ for each stored entry x of a SparseTensor, on its pattern."""

@overload
def ceil(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def ceil(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def celu(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute the continuously differentiable exponential linear unit of x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def celu(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def celu(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def conj(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute the conjugate of x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def conj(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def conj(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def conjugate(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute the conjugate of x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def conjugate(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def conjugate(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
def copysign(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute |x| with the sign of y, for the elements x of A and y of B. Elements not stored are 0."""

@overload
def cos(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute cos x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def cos(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def cos(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def cosh(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute cosh x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def cosh(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def cosh(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def deg2rad(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute x · π / 180 for each stored entry x of a SparseTensor, on its pattern."""

@overload
def deg2rad(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def deg2rad(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def elu(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute x if x > 0, else alpha · (exp(x) - 1) for each stored entry x of a SparseTensor, on its pattern."""

@overload
def elu(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def elu(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def erf(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute the error function of x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def erf(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def erf(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def erfc(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute 1 - erf(x) for each stored entry x of a SparseTensor, on its pattern."""

@overload
def erfc(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def erfc(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def exp(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute exp x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def exp(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def exp(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def exp2(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute 2ˣ for each stored entry x of a SparseTensor, on its pattern."""

@overload
def exp2(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def exp2(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def expm1(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute exp(x) - 1 for each stored entry x of a SparseTensor, on its pattern."""

@overload
def expm1(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def expm1(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def floor(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute ⌊x⌋ for each stored entry x of a SparseTensor, on its pattern."""

@overload
def floor(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def floor(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
def floor_divide(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute ⌊x / y⌋, for the elements x of A and y of B. Elements not stored are 0."""

def fmod(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute the remainder of x / y with the sign of x, for the elements x of A and y of B. Elements not stored are 0."""

@overload
def gelu(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute the Gaussian error linear unit of x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def gelu(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def gelu(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
def hypot(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute √(x² + y²), for the elements x of A and y of B. Elements not stored are 0."""

@overload
def imag(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute the imaginary part of x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def imag(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def imag(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def isfinite(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute whether x is finite for each stored entry x of a SparseTensor, on its pattern."""

@overload
def isfinite(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def isfinite(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def isinf(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute whether x is infinite for each stored entry x of a SparseTensor, on its pattern."""

@overload
def isinf(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def isinf(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def isnan(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute whether x is NaN for each stored entry x of a SparseTensor, on its pattern."""

@overload
def isnan(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def isnan(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def leaky_relu(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute x if x ≥ 0, else negative_slope · x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def leaky_relu(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def leaky_relu(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
def left_shift(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute x << y, for the elements x of A and y of B. Elements not stored are 0."""

@overload
def log(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute log x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def log(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def log(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def log1p(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute log(1 + x) for each stored entry x of a SparseTensor, on its pattern."""

@overload
def log1p(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def log1p(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def log2(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute log₂ x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def log2(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def log2(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def log10(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute log₁₀ x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def log10(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def log10(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def log_sigmoid(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute log sigmoid(x) for each stored entry x of a SparseTensor, on its pattern."""

@overload
def log_sigmoid(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def log_sigmoid(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
def logaddexp(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute log(exp x + exp y), for the elements x of A and y of B. Elements not stored are 0."""

def logaddexp2(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute log₂(2ˣ + 2ʸ), for the elements x of A and y of B. Elements not stored are 0."""

def logical_and(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute whether neither x nor y is 0, for the elements x of A and y of B. Elements not stored are 0."""

def logical_or(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute whether x or y is not 0, for the elements x of A and y of B. Elements not stored are 0."""

def logical_xor(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute whether exactly one of x and y is 0, for the elements x of A and y of B. Elements not stored are 0."""

def mod(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute x - y · ⌊x / y⌋, which has the sign of y, for the elements x of A and y of B. Elements not stored are 0."""

@overload
def nan_to_num(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute x with NaN replaced by 0, and infinities by the largest numbers for each stored entry x of a SparseTensor, on its pattern."""

@overload
def nan_to_num(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def nan_to_num(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def negative(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute -x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def negative(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def negative(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def positive(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute x itself for each stored entry x of a SparseTensor, on its pattern."""

@overload
def positive(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def positive(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def rad2deg(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute x · 180 / π for each stored entry x of a SparseTensor, on its pattern."""

@overload
def rad2deg(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def rad2deg(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def real(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute the real part of x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def real(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def real(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def reciprocal(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute 1 / x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def reciprocal(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def reciprocal(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def relu(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute max(x, 0) for each stored entry x of a SparseTensor, on its pattern."""

@overload
def relu(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def relu(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def relu6(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute min(max(x, 0), 6) for each stored entry x of a SparseTensor, on its pattern."""

@overload
def relu6(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def relu6(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
def remainder(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute x - y · ⌊x / y⌋, which has the sign of y, for the elements x of A and y of B. Elements not stored are 0."""

def right_shift(A: TensorLike, B: TensorLike) -> SparseTensor | jax.Array:
    """Compute x >> y, for the elements x of A and y of B. Elements not stored are 0."""

@overload
def rint(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute x rounded to the nearest integer, and halves to the even one for each stored entry x of a SparseTensor, on its pattern."""

@overload
def rint(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def rint(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def round(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute x rounded for each stored entry x of a SparseTensor, on its pattern."""

@overload
def round(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def round(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def rsqrt(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute 1 / √x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def rsqrt(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def rsqrt(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def selu(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute the scaled exponential linear unit of x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def selu(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def selu(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def sigmoid(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute 1 / (1 + exp(-x)) for each stored entry x of a SparseTensor, on its pattern."""

@overload
def sigmoid(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def sigmoid(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def sign(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute the sign of x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def sign(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def sign(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def signbit(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute whether x has a minus sign for each stored entry x of a SparseTensor, on its pattern."""

@overload
def signbit(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def signbit(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def silu(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute x · sigmoid(x) for each stored entry x of a SparseTensor, on its pattern."""

@overload
def silu(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def silu(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def sin(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute sin x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def sin(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def sin(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def sinh(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute sinh x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def sinh(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def sinh(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def soft_sign(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute x / (|x| + 1) for each stored entry x of a SparseTensor, on its pattern."""

@overload
def soft_sign(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def soft_sign(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def softplus(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute log(1 + exp(x)) for each stored entry x of a SparseTensor, on its pattern."""

@overload
def softplus(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def softplus(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def sqrt(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute √x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def sqrt(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def sqrt(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def square(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute x² for each stored entry x of a SparseTensor, on its pattern."""

@overload
def square(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def square(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def tan(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute tan x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def tan(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def tan(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def tanh(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute tanh x for each stored entry x of a SparseTensor, on its pattern."""

@overload
def tanh(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def tanh(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...
@overload
def trunc(A: SparseTensor, *args: ArrayLike | None, **options: object) -> SparseTensor:
    """Compute x rounded towards 0 for each stored entry x of a SparseTensor, on its pattern."""

@overload
def trunc(A: jax.Array, *args: ArrayLike | None, **options: object) -> jax.Array: ...
@overload
def trunc(A: TensorLike, *args: ArrayLike | None, **options: object) -> SparseTensor | jax.Array: ...

__all__ = [
    "CHECKPOINT_NAME",
    "EXPORT_CALLS",
    "CacheError",
    "CacheWarning",
    "ConfigError",
    "DTypeError",
    "DeletedArrayError",
    "FileFormatError",
    "Format",
    "FormatError",
    "IntegerRangeError",
    "JsparseError",
    "LeafError",
    "LinearityError",
    "NotYetSupportedError",
    "Pattern",
    "PatternError",
    "Schedule",
    "ScheduleError",
    "SemiringError",
    "ShapeError",
    "ShardedTensor",
    "ShardingError",
    "SparseTensor",
    "SubscriptError",
    "abs",
    "absolute",
    "accelerate_jax_sparse",
    "acos",
    "acosh",
    "add",
    "all",
    "allclose",
    "any",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argsort",
    "array_equal",
    "asarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "attention_fn",
    "autotune",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "block_diag",
    "block_fill",
    "broadcast_to",
    "can_cast",
    "cbrt",
    "ceil",
    "celu",
    "choose_format",
    "clear_cache",
    "clip",
    "concat",
    "concatenate",
    "config",
    "conj",
    "conjugate",
    "copysign",
    "cos",
    "cosh",
    "count_nonzero",
    "cumulative_sum",
    "decompose",
    "deg2rad",
    "diag",
    "diagonal",
    "diff",
    "divide",
    "dot",
    "dot_product_attention",
    "drop_zeros",
    "einsum",
    "elu",
    "equal",
    "equinox",
    "erf",
    "erfc",
    "evaluate",
    "exp",
    "exp2",
    "expand_dims",
    "explain",
    "expm1",
    "export",
    "eye",
    "flip",
    "floor",
    "floor_divide",
    "fmod",
    "full",
    "full_like",
    "fuse",
    "gelu",
    "grad",
    "graph",
    "greater",
    "greater_equal",
    "hstack",
    "hypot",
    "imag",
    "io",
    "isfinite",
    "isinf",
    "isnan",
    "kron",
    "leaky_relu",
    "left_shift",
    "less",
    "less_equal",
    "lineax",
    "linen",
    "load",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_sigmoid",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "mod",
    "moveaxis",
    "multiply",
    "nan_to_num",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nansum",
    "negative",
    "nn",
    "nnx",
    "nonzero",
    "norm",
    "not_equal",
    "ones",
    "ones_like",
    "optax",
    "outer",
    "pad",
    "pattern",
    "permute_dims",
    "positive",
    "pow",
    "power",
    "prod",
    "profile",
    "prune",
    "rad2deg",
    "random",
    "ravel",
    "real",
    "reciprocal",
    "regrow",
    "relu",
    "relu6",
    "remainder",
    "repeat",
    "reshape",
    "restrict",
    "result_type",
    "right_shift",
    "rint",
    "roll",
    "round",
    "row_length",
    "rsqrt",
    "save",
    "selu",
    "shard",
    "sigmoid",
    "sign",
    "signbit",
    "silu",
    "sin",
    "sinh",
    "soft_sign",
    "softmax",
    "softplus",
    "sort",
    "sparse_attention",
    "sparsify",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "swapaxes",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "top_k",
    "trace",
    "transpose",
    "tril",
    "triu",
    "trunc",
    "unique_counts",
    "unique_values",
    "unstack",
    "value_and_grad",
    "values",
    "var",
    "vecdot",
    "vstack",
    "where",
    "with_values",
    "zeros",
    "zeros_like",
]
