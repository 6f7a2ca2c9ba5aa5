"""What schedules assume of a machine. The same everywhere: processes on different hosts must choose alike, since their
programs are compared by text."""

__all__ = ["CACHED_BYTES", "LINE_BYTES", "PREFETCH_AHEAD", "REGISTER_BYTES"]

LINE_BYTES = 64  # of the cache
REGISTER_BYTES = 256  # of one register tile: 8 vectors of 32 bytes, half of AVX2's registers
CACHED_BYTES = 1 << 18  # a tensor of this size stays in the second-level cache
PREFETCH_AHEAD = 16  # stored entries; what they gather arrives from memory in about that time
