"""The public names of jsparse. Written by `python tools/stubs.py` from `jsparse/_names.py`."""

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
from jsparse.convert.creation import asarray as asarray
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
from jsparse.errors import SubscriptError as SubscriptError
from jsparse.formats import Format as Format
from jsparse.formats import Pattern as Pattern
from jsparse.io.files import load as load
from jsparse.io.files import save as save
from jsparse.ops.attention.attention_fn import attention_fn as attention_fn
from jsparse.ops.attention.dot_product_attention import dot_product_attention as dot_product_attention
from jsparse.ops.attention.sparse_attention import sparse_attention as sparse_attention
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
from jsparse.ops.elementwise.functions import abs as abs
from jsparse.ops.elementwise.functions import absolute as absolute
from jsparse.ops.elementwise.functions import acos as acos
from jsparse.ops.elementwise.functions import acosh as acosh
from jsparse.ops.elementwise.functions import arccos as arccos
from jsparse.ops.elementwise.functions import arccosh as arccosh
from jsparse.ops.elementwise.functions import arcsin as arcsin
from jsparse.ops.elementwise.functions import arcsinh as arcsinh
from jsparse.ops.elementwise.functions import arctan as arctan
from jsparse.ops.elementwise.functions import arctan2 as arctan2
from jsparse.ops.elementwise.functions import arctanh as arctanh
from jsparse.ops.elementwise.functions import asin as asin
from jsparse.ops.elementwise.functions import asinh as asinh
from jsparse.ops.elementwise.functions import atan as atan
from jsparse.ops.elementwise.functions import atan2 as atan2
from jsparse.ops.elementwise.functions import atanh as atanh
from jsparse.ops.elementwise.functions import bitwise_left_shift as bitwise_left_shift
from jsparse.ops.elementwise.functions import bitwise_right_shift as bitwise_right_shift
from jsparse.ops.elementwise.functions import cbrt as cbrt
from jsparse.ops.elementwise.functions import ceil as ceil
from jsparse.ops.elementwise.functions import celu as celu
from jsparse.ops.elementwise.functions import conj as conj
from jsparse.ops.elementwise.functions import conjugate as conjugate
from jsparse.ops.elementwise.functions import copysign as copysign
from jsparse.ops.elementwise.functions import cos as cos
from jsparse.ops.elementwise.functions import cosh as cosh
from jsparse.ops.elementwise.functions import deg2rad as deg2rad
from jsparse.ops.elementwise.functions import elu as elu
from jsparse.ops.elementwise.functions import erf as erf
from jsparse.ops.elementwise.functions import erfc as erfc
from jsparse.ops.elementwise.functions import exp as exp
from jsparse.ops.elementwise.functions import exp2 as exp2
from jsparse.ops.elementwise.functions import expm1 as expm1
from jsparse.ops.elementwise.functions import floor as floor
from jsparse.ops.elementwise.functions import floor_divide as floor_divide
from jsparse.ops.elementwise.functions import fmod as fmod
from jsparse.ops.elementwise.functions import gelu as gelu
from jsparse.ops.elementwise.functions import hypot as hypot
from jsparse.ops.elementwise.functions import imag as imag
from jsparse.ops.elementwise.functions import isfinite as isfinite
from jsparse.ops.elementwise.functions import isinf as isinf
from jsparse.ops.elementwise.functions import isnan as isnan
from jsparse.ops.elementwise.functions import leaky_relu as leaky_relu
from jsparse.ops.elementwise.functions import left_shift as left_shift
from jsparse.ops.elementwise.functions import log as log
from jsparse.ops.elementwise.functions import log1p as log1p
from jsparse.ops.elementwise.functions import log2 as log2
from jsparse.ops.elementwise.functions import log10 as log10
from jsparse.ops.elementwise.functions import log_sigmoid as log_sigmoid
from jsparse.ops.elementwise.functions import logaddexp as logaddexp
from jsparse.ops.elementwise.functions import logaddexp2 as logaddexp2
from jsparse.ops.elementwise.functions import logical_and as logical_and
from jsparse.ops.elementwise.functions import logical_or as logical_or
from jsparse.ops.elementwise.functions import logical_xor as logical_xor
from jsparse.ops.elementwise.functions import mod as mod
from jsparse.ops.elementwise.functions import nan_to_num as nan_to_num
from jsparse.ops.elementwise.functions import negative as negative
from jsparse.ops.elementwise.functions import positive as positive
from jsparse.ops.elementwise.functions import rad2deg as rad2deg
from jsparse.ops.elementwise.functions import real as real
from jsparse.ops.elementwise.functions import reciprocal as reciprocal
from jsparse.ops.elementwise.functions import relu as relu
from jsparse.ops.elementwise.functions import relu6 as relu6
from jsparse.ops.elementwise.functions import remainder as remainder
from jsparse.ops.elementwise.functions import right_shift as right_shift
from jsparse.ops.elementwise.functions import rint as rint
from jsparse.ops.elementwise.functions import round as round
from jsparse.ops.elementwise.functions import rsqrt as rsqrt
from jsparse.ops.elementwise.functions import selu as selu
from jsparse.ops.elementwise.functions import sigmoid as sigmoid
from jsparse.ops.elementwise.functions import sign as sign
from jsparse.ops.elementwise.functions import signbit as signbit
from jsparse.ops.elementwise.functions import silu as silu
from jsparse.ops.elementwise.functions import sin as sin
from jsparse.ops.elementwise.functions import sinh as sinh
from jsparse.ops.elementwise.functions import soft_sign as soft_sign
from jsparse.ops.elementwise.functions import softplus as softplus
from jsparse.ops.elementwise.functions import sqrt as sqrt
from jsparse.ops.elementwise.functions import square as square
from jsparse.ops.elementwise.functions import tan as tan
from jsparse.ops.elementwise.functions import tanh as tanh
from jsparse.ops.elementwise.functions import trunc as trunc
from jsparse.ops.elementwise.operators import bitwise_and as bitwise_and
from jsparse.ops.elementwise.operators import bitwise_invert as bitwise_invert
from jsparse.ops.elementwise.operators import bitwise_or as bitwise_or
from jsparse.ops.elementwise.operators import bitwise_xor as bitwise_xor
from jsparse.ops.elementwise.operators import divide as divide
from jsparse.ops.elementwise.operators import logical_not as logical_not
from jsparse.ops.elementwise.operators import matmul as matmul
from jsparse.ops.evaluate import evaluate as evaluate
from jsparse.ops.explain import explain as explain
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
from jsparse.ops.shaping.tensordot import tensordot as tensordot
from jsparse.ops.surgery.prune import drop_zeros as drop_zeros
from jsparse.ops.surgery.prune import prune as prune
from jsparse.ops.surgery.regrow import regrow as regrow
from jsparse.ops.surgery.restrict import restrict as restrict
from jsparse.ops.trees import values as values
from jsparse.ops.trees import with_values as with_values
from jsparse.primitives.einsum import CHECKPOINT_NAME as CHECKPOINT_NAME
from jsparse.settings import clear_cache as clear_cache
from jsparse.settings import config as config
from jsparse.sparsification.sparsify import sparsify as sparsify
from jsparse.tensor.sparse_tensor import SparseTensor as SparseTensor

__version__: str
EXPORT_CALLS: list[str]
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
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "block_diag",
    "broadcast_to",
    "can_cast",
    "cbrt",
    "ceil",
    "celu",
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
    "rsqrt",
    "save",
    "selu",
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
