"""Wrappers of JAX names that are not public. No other subpackage uses such names.

Names that `jax.extend` exports are imported from the modules that define them: `jax.extend` imports all of Pallas.
"""

from jax._src.core import Literal, Primitive
from jax._src.lib.mlir import ir  # type: ignore[attr-defined]
from jax._src.lib.mlir.dialects import hlo as stablehlo  # type: ignore[attr-defined]

from jsparse._compat.context import (
    Context,
    default_platform,
    explicit_axes,
    function_of_jax_numpy,
    is_closed_over,
    is_divided,
    is_eager,
    make_context,
    mesh_axes,
    mesh_of_chains,
    mesh_of_trace,
    mesh_of_types,
    of_process_0,
    output_aval,
    platform_of,
    primal_of_jacobian,
    put_on_device,
    same_varying,
    trace_settings,
    trace_state,
    varying_like,
)
from jsparse._compat.jaxprs import (
    CALLS,
    CALLS_WITH_RULES,
    close_jaxpr,
    equation_results,
    evaluate_jaxpr,
    find_used_arguments,
    is_jaxpr,
    is_type,
    jaxprs_in,
    literal,
    live_jaxpr,
    on_own_mesh,
    scan_counts,
    sub_jaxpr,
    traceback_frames,
    without_constants,
    without_dead_equations,
    without_mesh,
)
from jsparse._compat.lowering import (
    devices_of,
    emit_shared_constants,
    is_for_export,
    jaxlib_version,
    keep_alive,
    lower_as,
    lower_by_platform,
    name_operation,
    platforms_of,
    program_of,
    register_dtype_for_export,
    register_lowering,
    replace_cpu_lowering,
)
from jsparse._compat.primitives import (
    Zero,
    add_tangents,
    allow_infinities,
    apply_compiled,
    cache_weakly,
    finds_infinities,
    is_undefined,
    make_primitive,
    register_batching,
    register_checked_as,
    register_jvp,
    register_search_for_nan,
    register_split,
    register_taylor,
    register_taylor_as,
    register_transpose,
    run_directly,
    run_once,
    with_checkpoint_name,
)
