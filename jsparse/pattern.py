"""Patterns of attention and of weights. A pattern is an operand of `einsum`, and its `out_format`.

    >>> P = jsparse.pattern.window(1024, 32) | jsparse.pattern.global_(1024, 2)

Each function gives a static `Pattern` with exactly the entries that its docstring names, in csr or in another
`format=`. `|`, `&`, `-` and `^` combine patterns of one shape.
"""

from jsparse.ops.patterns.bands import causal as causal
from jsparse.ops.patterns.bands import strided as strided
from jsparse.ops.patterns.bands import window as window
from jsparse.ops.patterns.blocks import block_diagonal as block_diagonal
from jsparse.ops.patterns.blocks import butterfly as butterfly
from jsparse.ops.patterns.blocks import random_blocks as random_blocks
from jsparse.ops.patterns.made import RUNS as RUNS
from jsparse.ops.patterns.whole import from_mask as from_mask
from jsparse.ops.patterns.whole import full as full
from jsparse.ops.patterns.whole import global_ as global_
