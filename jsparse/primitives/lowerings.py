"""The lowering of each primitive on each platform, in one table. A primitive's other rules are in its own file.

A rule takes the primitive's operands and parameters: for `einsum` a `Spec`, which says what is computed and nothing
about loops. On CPU a rule lets the scheduler make a plan, and calls the plan's kernel. On all other platforms, and on
CPU under `jsparse.config.backend = "xla"`, a rule makes XLA operations (`portable/`). Under
`jsparse.config.blocks = "pallas"`, CUDA and TPUs have kernels for products of blocks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import jax
import numpy as np

from jsparse import _compat
from jsparse._compat import Primitive, lower_as
from jsparse.base.arrays import Array
from jsparse.compiler.dtypes import is_complex
from jsparse.compiler.runtime.routine import Routine
from jsparse.errors import NotYetSupportedError
from jsparse.formats import Pattern, Relayout
from jsparse.primitives.division.auto import lower_on_devices
from jsparse.primitives.division.axes import RULES
from jsparse.primitives.division.explicit import lower_divided
from jsparse.primitives.einsum import einsum_p
from jsparse.primitives.entries import entries_p
from jsparse.primitives.entries_spec import Entries
from jsparse.primitives.execute import execute, execute_entries, execute_sum
from jsparse.primitives.execute_permutation import execute_permutation
from jsparse.primitives.fused import as_chain, evaluate_fused, execute_fused, fused_p
from jsparse.primitives.host import host_arrays, is_on_host, is_searched, on_device
from jsparse.primitives.kernel import kernel_p, lower_kernel
from jsparse.primitives.map_values import compute_map, map_p
from jsparse.primitives.permute_values import compute_permutation, permute_values_p
from jsparse.primitives.portable.einsum import compute_einsum
from jsparse.primitives.portable.entries import compute_entries
from jsparse.primitives.portable.routines import run_portable
from jsparse.primitives.portable.summed import ACCELERATOR, CPU, GPU, Machine
from jsparse.primitives.portable.tiled_chain import evaluate_by_tiles, tiling_for
from jsparse.primitives.routine import lower_routine, routine_p
from jsparse.primitives.softmax import compute_logsumexp, compute_softmax, logsumexp_p, softmax_p
from jsparse.primitives.spec import Spec
from jsparse.primitives.sums import compute_sum, sum_p
from jsparse.program_settings import PORTABLE
from jsparse.settings import config

Rule: TypeAlias = Callable[..., Any]
"""A function `rule(ctx, *operands, **params)` of MLIR values. `lower_as` turns a function of arrays into a rule."""

_PORTABLE_ROUTINES = lower_as(run_portable, multiple_results=True)


def _run_on_cpu(ctx: Any, *operands: Any, routine: Any, **params: Any) -> Any:
    """Lower a routine on CPU to XLA operations, or to a call of the extension if it makes a program fail."""
    fails = isinstance(routine, Routine) and routine.name == "fit"
    return (lower_routine if fails else _PORTABLE_ROUTINES)(ctx, *operands, routine=routine, **params)


def _lower_chain(ctx: Any, *operands: Any, closed: Any, machine: Machine) -> Any:
    """Lower a chain to XLA operations: on tiles of its pattern if they pay or are asked for, else entry by entry."""
    tiling = None if config.tiles == "off" else tiling_for(closed, machine)
    if tiling is not None and config.tiles == "auto":
        if machine is CPU:
            is_better = tiling.pays(machine)
        else:  # nobody has measured it there, but it is better than an error
            counted = {**_constants.get(_compat.program_of(ctx), {}), **_bytes_of([tiling.pattern])}
            is_better = sum(counted.values()) > MOST_CONSTANT
        tiling = tiling if is_better else None
    if tiling is None:
        return lower_as(evaluate_fused, multiple_results=True)(ctx, *operands, closed=closed)
    _check_constants(ctx, {f"tiles of {tiling.pattern.digest}": tiling.nbytes})
    evaluate = partial(evaluate_by_tiles, tiling=tiling, machine=machine)
    return lower_as(evaluate, multiple_results=True)(ctx, *operands, closed=closed)


LOWERINGS: dict[Primitive, dict[str | None, Rule]] = {
    einsum_p: {
        "cpu": lower_as(execute),
        PORTABLE: lower_as(partial(compute_einsum, machine=CPU)),
        "cuda": lower_as(partial(compute_einsum, machine=GPU)),
        "rocm": lower_as(partial(compute_einsum, machine=GPU)),
        None: lower_as(partial(compute_einsum, machine=ACCELERATOR)),
    },
    sum_p: {"cpu": lower_as(execute_sum), None: lower_as(compute_sum)},
    entries_p: {
        "cpu": lower_as(execute_entries, multiple_results=True),
        None: lower_as(compute_entries, multiple_results=True),
    },
    permute_values_p: {"cpu": lower_as(execute_permutation), None: lower_as(compute_permutation)},
    softmax_p: {"cpu": lower_as(as_chain(softmax_p, compute_softmax)), None: lower_as(compute_softmax)},
    logsumexp_p: {None: lower_as(compute_logsumexp)},
    fused_p: {
        "cpu": lower_as(execute_fused, multiple_results=True),
        PORTABLE: partial(_lower_chain, machine=CPU),
        "cuda": partial(_lower_chain, machine=GPU),
        "rocm": partial(_lower_chain, machine=GPU),
        None: partial(_lower_chain, machine=ACCELERATOR),
    },
    map_p: {None: lower_as(compute_map)},
    routine_p: {"cpu": lower_routine, PORTABLE: _run_on_cpu, None: _PORTABLE_ROUTINES},
    # calls of the extension, which lowerings of the others make on CPU
    kernel_p: {"cpu": lower_kernel},
}
"""The rules of each primitive by platform.

The rule under None is for all platforms that are not listed. Under the backend "xla", CPU uses the rule under "xla"
(`PORTABLE`) if there is one, and otherwise the rule under None."""


def _with_blocks(*operands: Array, spec: Spec, kernel: str, machine: Machine) -> jax.Array:
    """Compute the einsum by the kernel named `kernel` if it is a product of blocks, else by XLA operations."""
    from jsparse.primitives.portable import block_kernels  # noqa: PLC0415  it imports Pallas

    return compute_einsum(*operands, spec=spec, machine=machine, kernel=getattr(block_kernels, kernel))


def _without_notice(rule: Rule) -> Rule:
    """Lower without JAX's notice that Pallas will lose its backend for Triton: without it, `_with_blocks` warns."""

    def lower_silently(ctx: Any, *operands: Any, **params: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The Pallas Triton backend is deprecated")
            return rule(ctx, *operands, **params)

    return lower_silently


BLOCKS: dict[Primitive, dict[str | None, Rule]] = {
    einsum_p: {
        "cuda": _without_notice(lower_as(partial(_with_blocks, kernel="multiply_on_gpu", machine=GPU))),
        "tpu": lower_as(partial(_with_blocks, kernel="multiply_on_tpu", machine=ACCELERATOR)),
    }
}
"""The rules that are added to `LOWERINGS` under `jsparse.config.blocks = "pallas"`."""

MOST_CONSTANT = 1 << 20
"""The most bytes of index arrays that a program for platforms other than CPU may have as constants."""

_constants: WeakKeyDictionary[Any, dict[str, int]] = WeakKeyDictionary()  # bytes by pattern, for each program


def _limit_constants(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Limit the constants of a lowering rule on platforms other than CPU: the index arrays of static patterns.

    The rule raises NotYetSupportedError if a program has more than MOST_CONSTANT bytes of such arrays."""

    def check_and_lower(ctx: Any, *operands: Any, **params: Any) -> Any:
        if "cuda" in _compat.platforms_of(ctx):
            _warn_of_slow_sums()
        _check_constants(ctx, _bytes_of(_patterns(params)))
        return rule(ctx, *operands, **params)

    return check_and_lower


def _bytes_of(patterns: Iterable[Pattern]) -> dict[str, int]:
    """The bytes of the coordinates of patterns, by their digests."""
    return {p.digest: p.ndim * p.nse * p.index_dtype.itemsize for p in patterns}


def _check_constants(ctx: Any, more: dict[str, int]) -> None:
    """Count further constants of a program, bytes by name. Raises NotYetSupportedError if it has too many."""
    others = [name for name in _compat.platforms_of(ctx) if name != "cpu"]
    if not others:
        return
    sizes = _constants.setdefault(_compat.program_of(ctx), {})
    sizes.update(more)
    if sum(sizes.values()) > MOST_CONSTANT:
        raise NotYetSupportedError(
            f"Expected index arrays of static patterns of at most {MOST_CONSTANT:,} bytes in a program for "
            f"{' and '.join(others)}, where they are constants, but there are {sum(sizes.values()):,}. Make "
            "the tensors dynamic with jsparse.asarray(..., dynamic=True), and pass them as arguments."
        )


SLOW_SUMS = ((0, 10, 2), (0, 11, 0))
"""The first and the last release of jaxlib that adds float32 by a loop of compare-and-swap on CUDA."""


@cache
def _warn_of_slow_sums() -> None:
    """Warn once if programs for CUDA are slow by a fault of this release of jaxlib."""
    if SLOW_SUMS[0] <= _compat.jaxlib_version() <= SLOW_SUMS[1]:
        release, first, last = (".".join(map(str, x)) for x in (_compat.jaxlib_version(), *SLOW_SUMS))
        warnings.warn(
            f"jaxlib {release} adds float32 in a scatter on CUDA 450 to 5,000 times slower than others, as do all "
            f"releases from {first} to {last}. Sums of sparse tensors are such scatters: install another jaxlib.",
            stacklevel=2,
        )


def _patterns(params: dict[str, Any]) -> Iterator[Pattern]:
    for value in params.values():
        if isinstance(value, Spec):
            patterns: list[Any] = [walk.pattern for walk in value.walks]
        elif isinstance(value, Entries):
            patterns = [*(walk.pattern for walk in value.reached.walks), value.result]
        else:
            patterns = [value.source, value.target] if isinstance(value, Relayout) else []
        yield from (x for x in patterns if isinstance(x, Pattern))


def _rules(primitive: Primitive) -> dict[str | None, Rule]:
    """Return the rules of a primitive by platform.

    `config.backend` chooses the rule on CPU, and `config.blocks` the rules on other platforms."""
    rules = {**LOWERINGS[primitive], **(BLOCKS.get(primitive, {}) if config.blocks == "pallas" else {})}
    on_kernels, on_cpu = rules.get("cpu"), rules.pop(PORTABLE, rules.get(None))
    rules = {platform: rule if platform == "cpu" else _limit_constants(rule) for platform, rule in rules.items()}
    if on_kernels is None or on_cpu is None:
        return rules

    by_kernels = lower_on_devices(primitive, on_kernels) if primitive in RULES else on_kernels

    def choose_and_lower(ctx: Any, *operands: Any, **params: Any) -> Any:
        return (on_cpu if config.is_portable else by_kernels)(ctx, *operands, **params)

    return {**rules, "cpu": choose_and_lower}


def _on_host(function: Callable[..., Any], multiple_results: bool = False) -> Callable[..., Any]:
    """Convert a function that lowerings trace to a function that runs without a program, for `_compat.run_once`.

    On numpy arrays, `function` calls kernels and routines immediately.

    The new function returns None if a program has to do the work. That is the case if operands are unknown or complex
    (XLA splits complex numbers into parts), if `jax.debug_nans` searches each program for NaN, or if the setting
    `jsparse.config.backend` excludes kernels.
    """

    def compute_on_host(*operands: Any, **params: Any) -> Any:
        if config.is_portable or not is_on_host(*operands) or is_searched():
            return None
        if any(is_complex(x.dtype) for x in operands):
            return None
        out = function(*host_arrays(operands), **params)
        results = [np.array(x) if isinstance(x, jax.Array) else x for x in (out if multiple_results else [out])]
        arrays = on_device(results, operands)
        return arrays if multiple_results else arrays[0]

    return compute_on_host


ONCE: dict[Primitive, Callable[..., Any]] = {
    einsum_p: _on_host(execute),
    sum_p: _on_host(execute_sum),
    entries_p: _on_host(execute_entries, multiple_results=True),
}
"""The functions of the primitives that run without a program at their first call outside jit.

Most calls may have a new pattern, and compiling a program for each pattern would take long."""

IN_PLACE = (einsum_p, sum_p, fused_p, routine_p)
"""The primitives whose lowering asks where their operands come from (`free_transposes.py`)."""


def _by_platform(ctx: Any, *operands: Any, primitive: Primitive, **params: Any) -> Any:
    """Lower a primitive in the tuple `IN_PLACE` by its rule for the platform. JAX finds rules of other primitives."""
    return _compat.lower_by_platform(ctx, primitive, _rules(primitive), *operands, **params)


for _primitive, _function in ONCE.items():
    _compat.run_once(_primitive, _function)
for _primitive in LOWERINGS:
    if _primitive in IN_PLACE:
        _whole = partial(_by_platform, primitive=_primitive)
        _compat.register_lowering(_primitive, lower_divided(_primitive, _whole), None, in_place=True)
        continue
    for _platform, _rule in _rules(_primitive).items():
        _compat.register_lowering(_primitive, lower_divided(_primitive, _rule), _platform)
