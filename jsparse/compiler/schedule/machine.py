"""The machine model of the scheduler. It is the same on every host.

JAX compares the programs of a job's processes as text, so all processes have to choose the same schedule.
"""

from math import gcd

LINE_BYTES = 64  # a cache line
NEAREST_BYTES = 1 << 15  # a tensor of at most this size stays in the first-level cache
REGISTER_BYTES = 256  # a register tile: 8 vectors of 32 bytes, half of AVX2's registers
WIDE_TILE_BYTES = 512  # a register tile where few, large tiles are best, if there are enough tiles for all threads
JAM_TILE_BYTES = 128  # one register tile, where several iterations run at a time
BLOCK_TILE_BYTES = 64  # the same for blocks: with wider tiles, fewer rows fit AVX2's registers, or sums are spilled
LARGEST_TILE = 1024  # the most bytes of a tile that a schedule may ask for; beyond, registers are spilled
LARGEST_COPY = 1 << 18  # the most bytes of a copied panel: it lies on the stack
WRITTEN_OUT = 256  # iterations that may be written out: LLVM takes about a millisecond for each
LARGEST_TARGET_COPY = 1 << 20  # the most bytes of a copy of a target: each chunk has one, in the second-level cache
CACHED_BYTES = 1 << 18  # a tensor of at most this size stays in the second-level cache
LARGE_CACHE_BYTES = 1 << 21  # a tensor of at most this size stays in the second-level cache of large cores
LAST_CACHE_BYTES = 12 << 20  # a tensor of at most this size stays in the part of the last cache that two cores have
PREFETCH_AHEAD = 16  # the least stored entries ahead: processing them takes about as long as a load from memory
SEGMENTS_AHEAD = 8  # the same for entries whose coordinates locate segments: a whole segment is walked for each
SEGMENTS_OF_PANEL_AHEAD = 4  # segments that a panel continues: with more, they would push its rows out of the cache
ENTRY_BYTES = 8  # the approximate size of a stored entry: a coordinate and a value

_CACHES = ((NEAREST_BYTES, 0.3), (CACHED_BYTES, 2.25), (LARGE_CACHE_BYTES, 4.0), (LAST_CACHE_BYTES, 10.0))
"""The size of each cache in bytes, and the cost of a miss in it in multiply-adds.

The cost was measured on Zen 4: the extra time of a product whose rows miss the cache, relative to a product whose rows
are all in the first-level cache. Beyond 2 MiB it is 2.25 on Zen 4 and 6 on Emerald Rapids.
"""


_SETS_BYTES = 1 << 16
"""The number of sets of a second-level cache times the bytes of a line. Addresses this far apart share a set."""


def gather_cost(size: float, part: int = 1, stride: int = 1) -> float:
    """The expected cost of reading a random cache line of a tensor of `size` bytes.

    A cache holds the fraction cached / size of the lines. The other lines pay the price of a miss.

    If the tensor consists of parts of `part` bytes that begin `stride` bytes apart, its lines may map to few sets of a
    near cache, and the other sets are of no use. Addresses that are 64 KiB apart share a set, so parts begin at
    multiples of the greatest common divisor of the stride and 64 KiB. With a stride of 4096 bytes, parts of 256 bytes
    map to a sixteenth of the sets (Lam, Rothberg and Wolf, "The cache performance and optimizations of blocked
    algorithms", ASPLOS 1991). The last cache spreads all lines over all of its sets.
    """
    sets = min(part / gcd(stride, _SETS_BYTES), 1.0)
    cost = nearer = 0.0
    for cached, price in _CACHES:
        used = cached if cached == LAST_CACHE_BYTES else cached * sets
        if size <= used:
            break
        cost += (price - nearer) * (1.0 - used / size)
        nearer = price
    return cost
