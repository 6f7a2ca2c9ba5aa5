"""The processor as the scheduler and the planner of paths see it: sizes of caches, and prices of what loops do."""

from __future__ import annotations

from math import gcd

from jsparse.base.dataclass import dataclass


@dataclass(frozen=True)
class CpuModel:
    """Sizes and prices of one kind of processor. A second kind is a second value.

    The model is the same on every host: JAX compares the programs of a job's processes as text, so all processes have
    to choose the same schedule. `Problem.cpu` carries it from the planner to each price. The defaults describe a core
    of a server with AVX2: they were measured on Zen 4, and most of them on Emerald Rapids as well.

    Names that end in `_bytes` are sizes in bytes, and names that end in `_entries`, `_segments`, `_rows`, `_lanes`,
    `_positions` and `_tiles` are such numbers. All others are prices in scalar multiply-adds: the time in which a loop
    whose operands are in registers adds one product. Names that begin with `path_` are prices of the planner of paths.
    """

    # Memory. A tensor of at most the size of a cache stays in it; a miss costs the extra time of a product whose rows
    # miss the cache, relative to a product whose rows are all in the first-level cache.
    line_bytes: int = 64
    page_bytes: int = 1 << 12
    first_cache_bytes: int = 1 << 15
    second_cache_bytes: int = 1 << 18
    large_second_cache_bytes: int = 1 << 21  # of large cores; beyond it a miss costs 2.25 on Zen 4, 6 on Emerald Rapids
    last_cache_bytes: int = 12 << 20  # the part of it that two cores have
    first_cache_miss: float = 0.3
    second_cache_miss: float = 2.25
    large_second_cache_miss: float = 4.0
    last_cache_miss: float = 10.0
    cache_way_bytes: int = 1 << 16  # sets of a second-level cache times a line: addresses this far apart share a set
    new_page: float = 4.0  # a factor: a line in another page than the line before, relative to a line that is near
    coordinate_bytes: int = 4
    entry_bytes: int = 8  # a coordinate and a value

    # Registers.
    vector_lanes: int = 8  # an index variable of at least this size fills a vector
    lane_speedup: float = 8.0  # a divisor: multiply-adds in vector lanes
    tile_bytes: int = 256  # a register tile: 8 vectors of 32 bytes, half of AVX2's registers
    wide_tile_bytes: int = 512  # a register tile where few, large tiles are best, if they are enough for all threads
    jam_tile_bytes: int = 128  # one register tile, where several iterations run at a time
    # The same for blocks: with wider tiles, fewer rows fit the registers, or sums are spilled.
    block_tile_bytes: int = 64
    jam_bytes: int = 768  # the tiles of all jammed iterations; with fewer registers, fewer iterations run at a time
    jam_rows: int = 8  # the maximum number of iterations at a time
    position_lanes: int = 8  # more lanes save no time: an addition then waits for loads, not for the addition before
    wide_position_lanes: int = 16  # where values are stored: functions of them take many instructions
    wide_position_steps: float = 4.0  # mean steps of `position_lanes` per segment from which on wide lanes are used
    interleaved_entries: int = 32  # mean entries of a segment that pay for a second loop over the rest
    interleaved_lanes: int = 2  # stored entries at a time

    # Loops over entries.
    visit: float = 2.0  # an iteration of a sparse loop: a coordinate loaded, a branch
    segment: float = 26.0  # a segment: two mispredicted branches, at its start and at its end
    scattered_segment: float = 5.0  # the same if sums are scattered, so that the next segment waits for nothing
    jammed: float = 0.7  # a factor: arithmetic on several rows at a time, relative to one row
    overlapped_entries: int = 16  # a sum of at most this many terms overlaps with the next sum
    appended: float = 3.0  # a factor: a multiply-add in a nest that appends entries, relative to other nests
    merge: float = 1.0  # one coordinate compared while merging
    single_entry: float = 0.25  # a factor: the only entry of a segment, which is loaded without a branch
    bisection_step: float = 1.0  # a step of a bisection in a segment, relative to a coordinate loaded in a loop
    far_bisection_step: float = 5.0  # the same in a whole level, in addition: a mispredicted branch
    bisection: float = 2.0  # a segment found and a coordinate compared, besides the steps
    map_lookup: float = 1.0  # a coordinate looked up in a map, relative to a coordinate loaded in a loop
    map_entry: float = 3.0  # an entry put into a map, and taken out, in the same unit

    # Entries in lanes.
    contiguous_lane: float = 0.2  # a factor: an entry in lanes where no element is gathered, relative to a scalar loop
    gathered_lane: float = 0.25  # an element that an entry in lanes gathers, in the same unit
    fold: float = 2.0  # lanes reduced to a scalar, in the same unit
    mispredicted_lanes: float = 6.0  # the branch to lanes, if segments are too many for their lengths to be predicted
    predicted_segments: int = 1 << 11  # the number of segments whose lengths the processor predicts

    # Targets and copies.
    memory: float = 2.0  # an element of the target read, changed and written in memory, instead of kept in a register
    clear: float = 0.25  # an element of the target set to zero
    target_copy: float = 3.0  # an element of a chunk's copy of the target: cleared, read, and added to others
    target_copies_bytes: int = 1 << 24  # all copies of a target together, at most
    # the minimum work of a chunk for an element of its copy, which costs an eighth of it
    target_copy_work: float = 24.0
    panel_line: float = 10.0  # a cache line copied into a panel
    panel_segment: float = 60.0  # a segment continued in a panel whose copied rows are in the first cache
    far_panel_segment: float = 230.0  # the same if they exceed it: they push out the target's rows, too
    far_panel_line: float = 0.35  # a line of a copy that is not in the first cache, besides the price of the line
    transpose: float = 1.0  # an element of a dense tensor transposed
    far_transpose: float = 2.5  # the same if the tensor is too large for the last cache
    move_call: float = 1e4  # a permutation of values to another storage order, however few they are
    move: float = 3.5  # a value of such a permutation
    far_move: float = 2.0  # a factor: a line that such a permutation misses, relative to a miss of a product; 3-4 seen
    near_lines: int = 4  # lines of a segment that are near once one of them is read: the processor fetches the next
    sort_call: float = 5e4  # a conversion of a dynamic pattern, however few its entries
    sort_step: float = 2.0  # an entry of such a conversion, for each doubling of the number of entries
    listed: float = 60.0  # a product listed, sorted, and located in the result; adding a product to a row costs 1
    read_before: float = 0.75  # a cache holds the rows if the segment before has read at least this fraction of them

    # Tiles and panels that are tried.
    shared_tiles: int = 16  # tiles of the target to divide among threads, at least,
    shared_lanes: int = 16  # but no tile narrower than a cache line of float32
    inner_tiles: int = 4  # the same if the walk or its panels are inside the loop over tiles
    panel_positions: int = 64  # entries of a panel: the rows that they select in two factors fit the second cache
    panel_rows: tuple[int, int] = (128, 512)  # of a panel whose rows are copied, one tile wide, to the 1st or 2nd cache
    block_rows: int = 24  # a multiple of the numbers of rows that run at a time

    # Prefetching.
    # the minimum number of entries ahead: processing them takes about as long as a load from memory
    prefetch_entries: int = 16
    prefetch_segments: int = 8  # the same for entries whose coordinates locate segments: each is walked whole
    prefetch_panel_segments: int = 4  # segments that a panel continues: more would push its rows out of the cache
    requested_bytes: int = 1 << 13  # requested and not read yet, if a cache holds the rows
    requested_far_bytes: int = 1 << 14  # the same if the rows are in memory
    most_prefetch_entries: int = 128

    # Threads.
    chunk_work: int = 1 << 15  # the minimum work for which waking a thread pays
    serial: float = 2.0  # a factor: work that threads cannot share, if it is enough for them
    shared_chunks: float = 8.0  # the number of chunks from which on threads share all of the work

    # Paths.
    path_blocked: float = 4.0  # a further divisor: a dense matrix product, which XLA blocks for the cache
    path_element: float = 2.0  # a multiply-add of another dense product, which XLA computes entry by entry
    path_streamed: float = 0.5  # the same where nothing is summed, and arrays are read as the result is written
    path_strided: float = 6.0  # an element that XLA reads across the rows of an array, in no matrix product
    path_step: float = 6_000.0  # one more call
    path_xla_call: float = 150_000.0  # an operation of XLA between kernels, because XLA wakes its own threads
    path_assembly: float = 50_000.0  # a dynamic pattern assembled in the program
    path_stored: float = 4.0  # an entry of an intermediate result written, read and found
    path_written: float = 1.0  # an entry of a dense one, which is not searched
    path_search: float = 2.0  # a coordinate looked up in another pattern
    path_visit: float = 1.0  # an iteration of a loop over a sparse level
    path_gathered: float = 5.0  # an entry gathered into another order
    path_moved: float = 2.0  # an entry added to a sum in memory, or an element of an array moved before the loops
    path_across: float = 8.0  # a factor: writing across the rows of a result
    path_lookup: float = 8.0  # an entry looked up in an operand, by branches that are not predicted
    path_bisection_step: float = 4.0  # a step of a bisection

    def __hash__(self) -> int:
        return hash((self.visit, self.chunk_work))  # problems are hashed often, and models are few

    @property
    def misses(self) -> tuple[tuple[int, float], ...]:
        """The size of each cache, and the price of a miss in it."""
        return (
            (self.first_cache_bytes, self.first_cache_miss),
            (self.second_cache_bytes, self.second_cache_miss),
            (self.large_second_cache_bytes, self.large_second_cache_miss),
            (self.last_cache_bytes, self.last_cache_miss),
        )

    def lines(self, size: int) -> int:
        """The number of cache lines that `size` consecutive bytes take."""
        return -(-size // self.line_bytes)

    def gather(self, size: float, part: int = 1, stride: int = 1) -> float:
        """The expected price of reading a random cache line of a tensor of `size` bytes.

        A cache holds the fraction cached / size of the lines. The other lines pay the price of a miss.

        If the tensor consists of parts of `part` bytes that begin `stride` bytes apart, its lines may map to few sets
        of a near cache, and the other sets are of no use. Addresses that are 64 KiB apart share a set, so parts begin
        at multiples of the greatest common divisor of the stride and 64 KiB. With a stride of 4096 bytes, parts of 256
        bytes map to a sixteenth of the sets (Lam, Rothberg and Wolf, "The cache performance and optimizations of
        blocked algorithms", ASPLOS 1991). The last cache spreads all lines over all of its sets.
        """
        sets = min(part / gcd(stride, self.cache_way_bytes), 1.0)
        price = nearer = 0.0
        for cached, miss in self.misses:
            used = cached if cached == self.last_cache_bytes else cached * sets
            if size <= used:
                break
            price += (miss - nearer) * (1.0 - used / size)
            nearer = miss
        return price


CPU = CpuModel()
"""The processor for which programs are planned."""
