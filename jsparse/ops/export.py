"""`export`: `jax.export.export` for functions that compute with sparse tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.export

from jsparse.primitives.target import export_calls


def export(
    function: jax.stages.Wrapped,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[jax.export.DisabledSafetyCheck] = (),
) -> Callable[..., jax.export.Exported]:
    """Export a jitted function: `jax.export.export`, which also allows the custom calls of jsparse's kernels.

        >>> A = jsparse.asarray([[1.0, 0.0], [2.0, 3.0]])
        >>> exported = jsparse.export(jax.jit(lambda A, x: A @ x))(A, jnp.ones(2))
        >>> exported.call(A, jnp.array([1.0, 10.0]))
        Array([ 1., 32.], dtype=float32)

    `jax.export` refuses programs with custom calls that it does not know, because the meaning of a call might change
    between releases. jsparse's calls name the version of their description, and a release that does not know the
    version refuses them.

    Args:
        function: a function made by `jax.jit`.
        platforms: the platforms on which the program will run, such as ["cpu", "cuda"]; by default JAX's own.
        disabled_checks: further checks of `jax.export` to disable.

    Returns a function of the arguments, or of `jax.ShapeDtypeStruct`s in their places, which returns a
    `jax.export.Exported`. `serialize` makes bytes of it, for which JAX needs the package flatbuffers. Another process
    imports jsparse, and reads the bytes by `jax.export.deserialize`.

    Raises ValueError, as `jax.export.export` does, if `function` is not jitted or makes other custom calls.
    """
    own = [jax.export.DisabledSafetyCheck.custom_call(name) for name in export_calls()]
    return jax.export.export(function, platforms=platforms, disabled_checks=[*own, *disabled_checks])
