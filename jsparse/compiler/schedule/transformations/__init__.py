"""Transformations: the steps of schedules, one file each.

A step rewrites a nest, and is checked by itself, as the scheduling operators of Exo are (Ikarashi et al., 2022). The
checks read a summary of the nest, so that the search needs to build no nest.
"""

from __future__ import annotations

from jsparse.compiler.schedule.summary import Transformation
from jsparse.compiler.schedule.transformations.cache_read import CacheRead
from jsparse.compiler.schedule.transformations.compute_at import ComputeAt
from jsparse.compiler.schedule.transformations.fuse import Fuse
from jsparse.compiler.schedule.transformations.merge_by import MergeBy
from jsparse.compiler.schedule.transformations.parallelize import Parallelize
from jsparse.compiler.schedule.transformations.pos import Pos
from jsparse.compiler.schedule.transformations.precompute import Precompute
from jsparse.compiler.schedule.transformations.prefetch import Prefetch
from jsparse.compiler.schedule.transformations.promote import Promote
from jsparse.compiler.schedule.transformations.reorder import Reorder
from jsparse.compiler.schedule.transformations.scatter import ScatterSegment
from jsparse.compiler.schedule.transformations.specialize import Specialize
from jsparse.compiler.schedule.transformations.split import Split
from jsparse.compiler.schedule.transformations.unroll import Unroll
from jsparse.compiler.schedule.transformations.unroll_and_jam import UnrollAndJam
from jsparse.compiler.schedule.transformations.vectorize import Vectorize
from jsparse.compiler.schedule.transformations.widen import Widen
from jsparse.compiler.schedule.transformations.workspace import MakeWorkspace

__all__ = ["TRANSFORMATIONS"]

TRANSFORMATIONS: dict[str, type[Transformation]] = {
    kind.keyword: kind
    for kind in (
        Reorder,
        Split,
        Pos,
        Fuse,
        Vectorize,
        Precompute,
        Promote,
        CacheRead,
        MakeWorkspace,
        MergeBy,
        ScatterSegment,
        Unroll,
        UnrollAndJam,
        Specialize,
        Parallelize,
        Prefetch,
        Widen,
        ComputeAt,
    )
}
"""The classes of transformations by the first word of their lines."""
