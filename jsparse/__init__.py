"""jsparse: sparse tensors for JAX. `einsum` over any mix of sparse and dense operands, compiled in milliseconds."""

from jsparse import _supported as _supported  # first: the other imports need names that an older JAX may lack
from jsparse._version import __version__ as __version__
from jsparse.adapters.accelerate_jax_sparse.register import accelerate_jax_sparse as accelerate_jax_sparse
from jsparse.compiler.schedule import Schedule as Schedule
from jsparse.convert.creation import asarray as asarray
from jsparse.errors import CacheError as CacheError
from jsparse.errors import CacheWarning as CacheWarning
from jsparse.errors import ConfigError as ConfigError
from jsparse.errors import DTypeError as DTypeError
from jsparse.errors import FormatError as FormatError
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
from jsparse.ops.building.diagonals import diag as diag
from jsparse.ops.building.diagonals import diagonal as diagonal
from jsparse.ops.building.diagonals import trace as trace
from jsparse.ops.building.diagonals import tril as tril
from jsparse.ops.building.diagonals import triu as triu
from jsparse.ops.building.filled import eye as eye
from jsparse.ops.building.filled import zeros as zeros
from jsparse.ops.building.products import block_diag as block_diag
from jsparse.ops.building.products import kron as kron
from jsparse.ops.building.products import outer as outer
from jsparse.ops.building.random import random as random
from jsparse.ops.caches import clear_cache as clear_cache
from jsparse.ops.einsum import einsum as einsum
from jsparse.ops.evaluate import evaluate as evaluate
from jsparse.ops.explain import explain as explain
from jsparse.ops.gradients import grad as grad
from jsparse.ops.gradients import value_and_grad as value_and_grad
from jsparse.ops.shaping.axes import expand_dims as expand_dims
from jsparse.ops.shaping.axes import moveaxis as moveaxis
from jsparse.ops.shaping.axes import squeeze as squeeze
from jsparse.ops.shaping.axes import swapaxes as swapaxes
from jsparse.ops.shaping.joining import concatenate as concatenate
from jsparse.ops.shaping.joining import hstack as hstack
from jsparse.ops.shaping.joining import stack as stack
from jsparse.ops.shaping.joining import vstack as vstack
from jsparse.ops.shaping.norm import norm as norm
from jsparse.ops.shaping.ordering import nonzero as nonzero
from jsparse.ops.shaping.ordering import sort as sort
from jsparse.ops.shaping.ordering import top_k as top_k
from jsparse.ops.shaping.repeating import broadcast_to as broadcast_to
from jsparse.ops.shaping.repeating import repeat as repeat
from jsparse.ops.shaping.repeating import tile as tile
from jsparse.ops.shaping.reshaping import ravel as ravel
from jsparse.ops.shaping.reshaping import reshape as reshape
from jsparse.ops.shaping.rolling import flip as flip
from jsparse.ops.shaping.rolling import roll as roll
from jsparse.ops.shaping.tensordot import tensordot as tensordot
from jsparse.planning.checkpoint_name import CHECKPOINT_NAME as CHECKPOINT_NAME
from jsparse.settings import config as config
from jsparse.tensor.sparse_tensor import SparseTensor as SparseTensor

EXPORT_CALLS = ["jsparse_kernel"]
"""The names of the custom calls in compiled programs, for `jax.export.DisabledSafetyCheck.custom_call`."""
