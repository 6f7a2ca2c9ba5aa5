"""One kernel, which tests have compiled, or found."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import jsparse
from jsparse.compiler.backends import BACKENDS
from jsparse.compiler.runtime import kernel_call as runtime
from jsparse.compiler.runtime.kernel_call import collect
from jsparse.compiler.runtime.recipe import write_recipe

A = jsparse.asarray(np.diag(np.arange(1, 6, dtype=np.float32)), format="csr")
X = np.arange(15, dtype=np.float32).reshape(5, 3)
EXPECTED = np.arange(1, 6, dtype=np.float32)[:, None] * X
(PART,) = jsparse.explain("ij,jk->ik", A, X).parts
RECIPE = write_recipe(PART.plan.problem, (PART.plan.schedule,))
LINKER = BACKENDS["llvm"].linker


def compiled() -> bool:
    """Forget, run, compare with numpy, and say whether anything was compiled."""
    runtime.clear_cache()
    out = np.full_like(X, -1)
    with collect() as stages:
        runtime.run_recipe(RECIPE, [np.asarray(A.values), X, *A.pattern.arrays, out])
    np.testing.assert_array_equal(out, EXPECTED)
    assert ("LLVM" in stages) == ("code generation" in stages)
    return "LLVM" in stages


def files(folder: Path) -> list[Path]:
    """Entries, and what was to become one."""
    return sorted(folder.glob("*.kernel*"))
