"""The current trace and mesh of JAX, settings that are part of the key of jit's cache, and an error after forks."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any, Generic, TypeVar

import jax
import numpy as np
from jax._src import distributed
from jax._src.config import eager_constant_folding, trace_context
from jax._src.core import (
    get_opaque_trace_state,
    trace_ctx,
    trace_state_clean,
)
from jax._src.interpreters import pxla
from jax._src.xla_bridge import backends_are_initialized

from jsparse.base.limits import check_bytes
from jsparse.errors import JsparseError

T = TypeVar("T")


def output_aval(
    shape: Sequence[int], dtype: np.dtype, operands: Sequence[jax.core.ShapedArray]
) -> jax.core.ShapedArray:
    """Return the abstract value of a result, which is replicated over the operands' mesh.

    It varies over the same manual axes of `shard_map` as the operands.

    Without operands, return the abstract value of a constant.

    Raises ShapeError if the result is too large for memory.
    """
    check_bytes(
        shape,
        dtype,
        "a result, a derivative, or a batch of them",
        "Ask for a sparse result (out_format=), sum over more indices, or map over fewer at a time (jax.lax.map).",
    )
    if not operands:
        return jax.core.ShapedArray(tuple(shape), dtype)
    first = operands[0]
    replicated = first.sharding.update(spec=jax.sharding.PartitionSpec(*[None] * len(shape)))
    return first.update(shape=tuple(shape), dtype=dtype, weak_type=False, sharding=replicated)


def mesh_of_types(types: Sequence[jax.core.ShapedArray]) -> jax.sharding.AbstractMesh:
    """Return the mesh of arrays of these types; the empty mesh if they have none."""
    meshes = [x.sharding.mesh for x in types]
    return next((mesh for mesh in meshes if not mesh.empty), NO_MESH)


def is_divided(x: jax.core.ShapedArray) -> bool:
    """Whether arrays of a type are divided over explicit axes of a mesh."""
    return any(entry is not None for entry in x.sharding.spec)


def mesh_axes(spec: jax.sharding.PartitionSpec, ndim: int) -> tuple[tuple[str, ...], ...]:
    """For each axis of an array with `ndim` axes, the names of the mesh axes that divide it."""
    names = [() if entry is None else entry if isinstance(entry, tuple) else (entry,) for entry in spec]
    return (*names, *[()] * (ndim - len(names)))


def explicit_axes(mesh: jax.sharding.AbstractMesh) -> frozenset[str]:
    """The names of the explicit axes of a mesh."""
    kinds = zip(mesh.axis_names, mesh.axis_types, strict=True)
    return frozenset(name for name, kind in kinds if kind == jax.sharding.AxisType.Explicit)


def _varying(x: jax.Array) -> frozenset[str]:
    aval = jax.typeof(x)
    kind = getattr(aval, "manual_axis_type", None)
    return frozenset(getattr(aval, "vma", ()) if kind is None else kind.varying)  # `vma` up to JAX 0.9


def same_varying(operands: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
    """Make all operands vary over the same manual axes, as the type check of `shard_map` requires."""
    every_axis = frozenset().union(*map(_varying, operands))
    if not every_axis:
        return tuple(operands)

    def vary(x: jax.Array) -> jax.Array:
        missing = tuple(sorted(every_axis - _varying(x)))
        if missing and not hasattr(jax.lax, "pcast"):
            return vars(jax.lax)["pvary"](x, missing)  # JAX 0.8.0 and 0.8.1
        return jax.lax.pcast(x, missing, to="varying") if missing else x

    return tuple(map(vary, operands))


def varying_like(x: jax.Array, shape: Sequence[int], dtype: np.dtype) -> jax.ShapeDtypeStruct:
    """The type of a kernel's result, which varies over the same manual axes as `x`."""
    aval = jax.typeof(x)
    name = "manual_axis_type" if hasattr(aval, "manual_axis_type") else "vma"  # up to JAX 0.9
    return jax.ShapeDtypeStruct(tuple(shape), dtype, **{name: getattr(aval, name)})


def function_of_jax_numpy() -> str | None:
    """Return the name of the jax.numpy function that called this function's caller in order to check an operand.

    The result is "" if the name is not known, and None if no function of jax.numpy called the caller in a check. For a
    function of jax.nn, such as `softmax`, it is that name.
    """
    frame: FrameType | None = sys._getframe(2)
    caller = None
    while frame is not None and frame.f_globals.get("__name__") == "jax._src.numpy.util":
        name = frame.f_locals.get("fun_name")
        caller = name if isinstance(name, str) else caller or ""
        frame = frame.f_back
    while caller and frame is not None and str(frame.f_globals.get("__name__")).startswith("jax."):
        if frame.f_globals["__name__"] == "jax._src.nn.functions":
            caller = frame.f_code.co_name
        frame = frame.f_back
    return caller


def primal_of_jacobian() -> tuple[Any, int] | None:
    """Return the primal array whose part of a Jacobian this function's caller makes, and the axis of its parameters.

    The axis is 0 in `jax.jacrev`, and the last one in `jax.jacfwd`. The array is None if JAX does not say which it is.
    The result is None outside of both functions.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("numpy."):
        frame = frame.f_back
    is_inside = False
    while frame is not None and frame.f_globals.get("__name__") == "jax._src.api":
        names = frame.f_locals  # of a comprehension first, up to Python 3.11
        if "example" in names and "axis" in names:
            return names["example"], names["axis"]
        is_inside, frame = True, frame.f_back
    return (None, 0) if is_inside else None


def trace_state() -> Any:
    """Return a token of the current trace. Two tokens are equal if they were returned during the same trace."""
    return get_opaque_trace_state(convention="flax")


def trace_settings() -> Hashable:
    """Return the settings in the key of jit's cache. They include the settings that `make_context` made."""
    return trace_context()


def is_eager() -> bool:
    """Whether JAX computes operations on known arrays immediately, instead of tracing them."""
    return trace_state_clean() or eager_constant_folding.value


def is_closed_over(x: object) -> bool:
    """Whether an array on the devices of several processes would become a constant of a program, which JAX refuses.

    Functions of loops and branches may close over it: outside `jax.jit` their constants are arguments of a program.
    """
    if distributed.global_state.client is None or trace_state_clean():
        return False
    if not isinstance(x, jax.Array) or isinstance(x, jax.core.Tracer) or x.is_fully_addressable:
        return False
    trace: object = trace_ctx.trace
    while trace is not None:
        if getattr(getattr(getattr(trace, "frame", None), "debug_info", None), "traced_for", None) == "jit":
            return True
        trace = getattr(trace, "parent_trace", None)
    return False


def put_on_device(arrays: Sequence[np.ndarray], sharding: jax.sharding.Sharding | None) -> list[jax.Array]:
    """Put arrays on a device, as `jax.device_put` does. Nothing else may refer to them: JAX may share their memory.

    Args:
        sharding: the sharding to which the results are committed; None for the default device.

    On the default device this takes a tenth of the time of `jax.device_put`.
    """
    default = jax.config.jax_default_device  # type: ignore[attr-defined]
    if sharding is not None or default is not None or not mesh_of_trace().empty:
        return [jax.device_put(x, sharding, may_alias=True) for x in arrays]
    device = jax.local_devices()[0]
    place = jax.sharding.SingleDeviceSharding(device)
    with jax.transfer_guard_host_to_device("allow"):  # no operand comes from another memory
        return [
            pxla.batched_device_put(jax.core.ShapedArray(x.shape, x.dtype), place, [x], [device], committed=False)
            for x in arrays
        ]


def default_platform() -> str:
    """Return the platform for which JAX compiles programs on arrays that have not been put on another device."""
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None:
        return jax.default_backend()
    return str(device if isinstance(device, str) else device.platform)


def platform_of(arrays: Sequence[jax.Array]) -> str:
    """Return the platform of a program on these arrays: where they are, if all are known, else the default platform."""
    if not arrays or any(isinstance(x, jax.core.Tracer) for x in arrays):
        return default_platform()
    devices = {device.platform for x in arrays if isinstance(x, jax.Array) and x.committed for device in x.devices()}
    return devices.pop() if len(devices) == 1 else default_platform()


def mesh_of_chains() -> jax.sharding.AbstractMesh:
    """Return the mesh on which jaxprs are traced now that become parameters of primitives.

    It is the mesh of a `shard_map`, inside of one. Outside, such a jaxpr names no mesh.
    """
    mesh = jax.sharding.get_abstract_mesh()
    return mesh if is_manual(mesh) else NO_MESH


def is_manual(mesh: jax.sharding.AbstractMesh) -> bool:
    """Whether a mesh has manual axes, as it has inside `shard_map`."""
    return any(kind == jax.sharding.AxisType.Manual for kind in mesh.axis_types)


NO_MESH = jax.sharding.AbstractMesh((), ())


def mesh_of_trace() -> jax.sharding.AbstractMesh:
    """Return the mesh of operations that are traced now. `shard_map` sets this mesh, or the types of operands do. A
    jaxpr that is traced now refers to this mesh, so the jaxpr cannot be evaluated on another mesh."""
    return jax.sharding.get_abstract_mesh()


WAIT_MS = 300_000  # how long a process waits for process 0, which may be compiling other programs
_agreed: dict[str, str] = {}


def of_process_0(key: str, text: str) -> str:
    """Return the text that process 0 of a job passes for this key. The other processes wait until it does.

    The first answer holds until the end of the process. Raises JsparseError if process 0 does not answer.
    """
    client = distributed.global_state.client
    if client is None:  # the processes were not started by jax.distributed
        return text
    name = f"jsparse/{hashlib.sha256(key.encode()).hexdigest()}"
    if name in _agreed:
        return _agreed[name]
    try:
        if jax.process_index() == 0:
            client.key_value_set(name, f"={text}", allow_overwrite=True)  # the service takes no empty text
        else:
            text = str(client.blocking_key_value_get(name, WAIT_MS)).removeprefix("=")
    except RuntimeError as error:
        raise JsparseError(
            f"Expected process 0 to plan the same kernel as process {jax.process_index()}, because all processes use "
            f"its schedules under jsparse.config.autotune = 'use', but it did not do so within {WAIT_MS // 1000} s. "
            "Run the same program on all processes, or set the option to 'off'."
        ) from error
    return _agreed.setdefault(name, text)


class Context(Generic[T]):
    """A setting that is part of the key of jit's cache: JAX traces a jitted function separately for each of its values.

    Values are hashable and compared by equality.
    """

    def __init__(self, default: T) -> None:
        self._config = jax.make_user_context(default)

    @property
    def value(self) -> T:
        """The value of this thread's innermost `with` block, or the global value outside of all blocks."""
        return self._config.value

    def __call__(self, value: T) -> AbstractContextManager[None]:
        """Set the value for this thread inside a block: `with context(value): ...`."""
        return self._config(value)

    def set_global(self, value: T) -> None:
        """Set the global value, for all threads. Open `with` blocks keep the values that they set."""
        # Up to JAX 0.10.0 only the wrapped object has the method.
        config = self._config if hasattr(self._config, "set_global") else self._config._obj
        config.set_global(value)


def make_context(default: T) -> Context[T]:
    """Make a setting. Functions that were jitted before are traced again.

    No other thread may call JAX during this call, so settings are made on import.
    """
    return Context(default)


def _mark_fork() -> None:
    """In a process that was forked after JAX started, make every lowering of a program fail.

    XLA verifies, compiles and loads programs in its threads. A forked process has none of these threads, so it would
    wait forever.
    """
    if backends_are_initialized():
        jax.monitoring.register_scalar_listener(_refuse_program)


def _refuse_program(event: str, value: float, **kwargs: Any) -> None:
    if event == "/jax/core/compile/jaxpr_to_mlir_module_duration":
        raise JsparseError(
            "Expected a process that was started by spawn or forkserver, but this process was forked after JAX had "
            "started, and lacks the threads with which XLA compiles programs. Fork before the first operation, or use "
            "multiprocessing.get_context('spawn')."
        )


os.register_at_fork(after_in_child=_mark_fork)
