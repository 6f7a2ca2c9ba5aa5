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
from jsparse.errors import FileFormatError as FileFormatError
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
from jsparse.io.files import load as load
from jsparse.io.files import save as save
from jsparse.ops.caches import clear_cache as clear_cache
from jsparse.ops.einsum import einsum as einsum
from jsparse.ops.elementwise_nse import add as add
from jsparse.ops.elementwise_nse import multiply as multiply
from jsparse.ops.elementwise_nse import subtract as subtract
from jsparse.ops.evaluate import evaluate as evaluate
from jsparse.ops.explain import explain as explain
from jsparse.ops.gradients import grad as grad
from jsparse.ops.gradients import value_and_grad as value_and_grad
from jsparse.ops.surgery.prune import drop_zeros as drop_zeros
from jsparse.ops.surgery.prune import prune as prune
from jsparse.ops.surgery.regrow import regrow as regrow
from jsparse.ops.surgery.restrict import restrict as restrict
from jsparse.ops.trees import values as values
from jsparse.ops.trees import with_values as with_values
from jsparse.planning.checkpoint_name import CHECKPOINT_NAME as CHECKPOINT_NAME
from jsparse.settings import config as config
from jsparse.tensor.sparse_tensor import SparseTensor as SparseTensor

EXPORT_CALLS = ["jsparse_kernel"]
"""The names of the custom calls in compiled programs, for `jax.export.DisabledSafetyCheck.custom_call`."""
