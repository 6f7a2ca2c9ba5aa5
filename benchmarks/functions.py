"""The time of kernels' own functions for one element, beside numpy's and jax.numpy's: `python benchmarks/functions.py`.

All run on one thread, over 9984 numbers between 0.1 and 4 that stay in the cache, many times. Each time is the
smallest of many runs, which alternate.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base import _native
from jsparse.compiler.backends.llvm import compile_kernel
from jsparse.compiler.dtypes import Type
from jsparse.compiler.kernel import Kernel
from jsparse.compiler.kernel.nodes import Buffer, Call, Const, For, Load, Store, Var

COUNT, REPEATS, RUNS = 9984, 200, 25
NAMES = ("exp", "exp2", "expm1", "log", "log1p", "tanh", "logistic", "erf", "erfc", "sqrt", "rsqrt", "cbrt", "pow")
NARROW = ("sin", "cos", "tan")  # for float32 only
LIBRARY = {"pow": "power", "logistic": "none", "erf": "none"}
JAX = {"logistic": jax.nn.sigmoid, "erf": jax.lax.erf, "erfc": jax.lax.erfc, "rsqrt": jax.lax.rsqrt, "pow": jnp.power}


def ours(name: str, operands: list[np.ndarray], lanes: int) -> Callable[[], object]:
    """A kernel that computes the function `REPEATS` times."""
    dtype, out = operands[0].dtype.name, np.zeros(COUNT, operands[0].dtype)
    given = [Buffer(f"x{k}", Type(dtype), k) for k in range(len(operands))]
    result, n = Buffer("out", Type(dtype), len(operands), True), Var("n")
    body = Store(result, n, Call(name, tuple(Load(x, n, lanes) for x in given)))
    once = For(n, Const(0), Const(COUNT), body, lanes)
    code = compile_kernel(Kernel((*given, result), For(Var("again"), Const(0), Const(REPEATS), once)))
    return lambda: _native.run(code.address, [*operands, out], 1)


def by_numpy(name: str, operands: list[np.ndarray]) -> Callable[[], object] | None:
    function = getattr(np, LIBRARY.get(name, name), None)
    out = np.zeros_like(operands[0])
    return None if function is None else lambda: [function(*operands, out=out) for _ in range(REPEATS)]


def by_jax(name: str, operands: list[np.ndarray]) -> Callable[[], object]:
    function = JAX.get(name) or getattr(jnp, name)
    arrays = [jnp.asarray(x) for x in operands]

    @jax.jit
    def repeated(*arrays: jax.Array) -> jax.Array:
        """Each pass reads an element of the one before, so none is left out."""
        again = lambda _, last: function(arrays[0] + 0 * last[0], *arrays[1:])  # noqa: E731
        return jax.lax.fori_loop(0, REPEATS, again, arrays[0])

    return lambda: repeated(*arrays).block_until_ready()


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    for dtype, lanes in (("float32", 16), ("float64", 8)):
        print(f"{dtype:10} {'jsparse':>8} {'numpy':>8} {'jax':>8}   ns for one element")
        for name in (*NAMES, *NARROW) if dtype == "float32" else NAMES:
            rng = np.random.default_rng(0)
            operands = [rng.uniform(0.1, 4, COUNT).astype(dtype) for _ in range(2 if name == "pow" else 1)]
            runs = [ours(name, operands, lanes), by_numpy(name, operands), by_jax(name, operands)]
            best = [float("inf")] * 3
            for _ in range(RUNS):
                for k, run in enumerate(runs):
                    if run is not None:
                        start = time.perf_counter()
                        run()
                        best[k] = min(best[k], time.perf_counter() - start)
            times = "".join(f" {seconds * 1e9 / COUNT / REPEATS:8.2f}" for seconds in best)
            print(f"{name:10}{times}", flush=True)


if __name__ == "__main__":
    main()
