"""What schedules assume of a machine. The same everywhere: processes on different hosts must choose alike, since their
programs are compared by text."""

__all__ = ["CACHED_BYTES", "LINE_BYTES", "PREFETCH_AHEAD", "REGISTER_BYTES", "gather_cost"]

LINE_BYTES = 64  # of the cache
REGISTER_BYTES = 256  # of one register tile: 8 vectors of 32 bytes, half of AVX2's registers
CACHED_BYTES = 1 << 18  # a tensor of this size stays in the second-level cache
PREFETCH_AHEAD = 16  # stored entries; what they gather arrives from memory in about that time


_CACHES = ((1 << 15, 0.3), (CACHED_BYTES, 2.25), (1 << 24, 10.0))
"""Of each cache its bytes, and what a line that is not there costs, in multiply-adds: what products take longer than
with all rows in the nearest one, measured on Zen 4."""


def gather_cost(size: float) -> float:
    """What a line of a tensor of that many bytes costs to read in any order: as if each cache held a part of it."""
    cost = nearer = 0.0
    for cached, price in _CACHES:
        cost += (price - nearer) * max(0.0, 1.0 - cached / max(size, 1.0))
        nearer = price
    return cost
