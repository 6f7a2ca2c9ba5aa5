"""Finds the dense Flax layers that multiply by one matrix, and extracts this matrix."""

from __future__ import annotations

import inspect
import math

import jax
from flax import nnx

from jsparse.errors import DTypeError, NotYetSupportedError, ShapeError, describe_type, short_repr
from jsparse.nnx.attention import SparseAttention

# Options that change what a layer computes. Others, such as initializers, have done their work, and `precision` is the
# highest one of each dtype here.
OPTIONS = ("dot_general", "dot_general_cls", "promote_dtype", "preferred_element_type")


def refusal(layer: object) -> str | None:
    """Return the reason why a layer is not a product of the last axes of x with one matrix, or None if it is."""
    name = type(layer).__name__
    if not isinstance(layer, nnx.Linear | nnx.LinearGeneral):
        return f"no sparse {name}"
    if type(layer) not in (nnx.Linear, nnx.LinearGeneral):
        return f"{name} is a subclass with its own call"
    defaults = inspect.signature(type(layer).__init__).parameters
    for option in OPTIONS:
        value = getattr(layer, option, None)
        if value not in (None, jax.lax.dot_general) and value is not defaults[option].default:
            return f"{option}={short_repr(value)}"
    if isinstance(layer, nnx.LinearGeneral):
        if layer.batch_axis:
            return f"batch_axis={dict(layer.batch_axis)}"
        if layer.axis != tuple(range(-len(layer.axis), 0)):
            return f"axis={layer.axis}, where the last axes are expected, in their order"
    sizes = (*_tuple(layer.in_features), *_tuple(layer.out_features))
    if layer.kernel.shape != sizes:
        return f"a kernel {layer.kernel.shape} in place of {sizes}, as nnx.vmap makes it"
    return None


def projection_layer(attention: SparseAttention, name: str) -> nnx.LinearGeneral:
    """Return the layer that computes what a dense projection of an attention layer does, on the same parameters."""
    parameters: nnx.Dict = getattr(attention, name)
    kernel, bias = parameters["kernel"], parameters.get("bias")
    lead = kernel.ndim - 1 if name == "out" else 1
    inputs, outputs, axis = kernel.shape[:lead], kernel.shape[lead:], tuple(range(-lead, 0))
    layer = nnx.LinearGeneral(
        *(sizes[0] if len(sizes) == 1 else sizes for sizes in (inputs, outputs)),
        axis=axis,
        use_bias=False,
        dtype=attention.dtype,
        kernel_init=nnx.initializers.zeros_init(),
        rngs=nnx.Rngs(0),
    )
    layer.kernel, layer.bias = kernel, nnx.data(bias)
    return layer


def as_matrix(layer: object, function: str) -> jax.Array:
    """Return the kernel of a dense layer as a matrix (inputs, outputs).

    Raises DTypeError for another type of layer, NotYetSupportedError for a dense layer that is not a product with one
    matrix, ShapeError if the kernel is traced.
    """
    if not isinstance(layer, nnx.Linear | nnx.LinearGeneral):
        raise DTypeError(
            f"Expected an nnx.Linear, an nnx.LinearGeneral or a SparseTensor in {function}, but got "
            f"{describe_type(layer)}. jsparse.asarray makes a SparseTensor from an array."
        )
    if (reason := refusal(layer)) is not None:
        raise NotYetSupportedError(
            f"Expected {describe_type(layer)} that multiplies the last axes of x by its kernel in {function}, but "
            f"got {reason}. Leave this layer dense."
        )
    kernel = layer.kernel[...]
    if isinstance(kernel, jax.core.Tracer):
        raise ShapeError(f"Expected a known kernel in {function}. Call it outside jit.")
    return kernel.reshape(math.prod(_tuple(layer.in_features)), math.prod(_tuple(layer.out_features)))


def _tuple(sizes: int | tuple[int, ...]) -> tuple[int, ...]:
    return sizes if isinstance(sizes, tuple) else (sizes,)
