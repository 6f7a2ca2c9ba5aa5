"""Patterns of attention and of weights. A pattern can be an operand of `einsum`, and its `out_format`.

    >>> P = jsparse.pattern.window(1024, 32) | jsparse.pattern.global_(1024, 2)

Each function gives a static `Pattern` with exactly the entries that its docstring names, in csr or in another
`format=`. `|`, `&`, `-` and `^` combine patterns of one shape. With a composed format the result is a composition,
which can be a mask, an operand and an `out_format`, as a pattern can. Its blocks have to be full, and these operators
convert it to csr.

    >>> jsparse.pattern.butterfly(1024, 16, format="bsr(16, 16)").format.name
    'bsr(16, 16)'
"""

from jsparse.ops.patterns.bands import causal, strided, window
from jsparse.ops.patterns.blocks import block_diagonal, butterfly, random_blocks
from jsparse.ops.patterns.construction import RUNS
from jsparse.ops.patterns.masks import from_blocks, from_mask, full, global_

__all__ = [
    "RUNS",
    "block_diagonal",
    "butterfly",
    "causal",
    "from_blocks",
    "from_mask",
    "full",
    "global_",
    "random_blocks",
    "strided",
    "window",
]
