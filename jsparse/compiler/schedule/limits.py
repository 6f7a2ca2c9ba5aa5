"""The most that a schedule may ask for."""

LARGEST_TILE = 1024  # bytes of a tile; beyond, registers are spilled
LARGEST_COPY = 1 << 18  # bytes of a copied panel, which is on the stack
WRITTEN_OUT = 256  # iterations that are written out: LLVM takes about a millisecond for each
LARGEST_TARGET_COPY = 1 << 20  # bytes of a copy of a target: each chunk has one, in the second-level cache
