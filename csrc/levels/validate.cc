#include "levels/validate.h"

#include <algorithm>
#include <atomic>

#include "levels/levels.h"
#include "levels/pointers.h"
#include "threads/loops.h"

namespace jsparse {
namespace {

template <class Index>
struct Validation {
  Context* ctx;
  const Layout& layout;
  const std::vector<LevelArrays> arrays;
  const std::vector<LevelReader<Index>> in;
  const bool exact;

  Validation(Context* ctx, const Layout& layout, const IndexArrays& given, int64_t slots, bool exact)
      : ctx(ctx), layout(layout), arrays(layout.by_level(given.arrays)), in(read_levels<Index>(layout, given, slots)),
        exact(exact) {}

  // Returns whether the index arrays of a level have the lengths that `parents` parents require, and whether all levels
  // of its chain have equally many positions.
  bool lengths_fit(int l, int64_t parents) const {
    const auto at = static_cast<size_t>(l);
    const LevelArrays& given = arrays[at];
    const KindTraits& traits = in[at].level.traits();
    if (!traits.pointers) return in[at].positions >= parents;
    if (in[at].parents != parents || in[at].pointers == nullptr) return false;
    if (exact && (given.pointers.length != parents + 1 || (traits.starts && given.starts.length != parents))) return false;
    for (int m = l + 1; m < layout.chain_end[at]; ++m) {
      if (in[static_cast<size_t>(m)].positions != in[at].positions) return false;
    }
    return true;
  }

  int32_t faults_of_pointers(const LevelReader<Index>& level) const {
    int32_t faults = 0;
    const int64_t last = level.pointers[level.parents];
    if ((level.parents > 0 || exact) && level.pointers[0] != 0) faults |= kFaultPointers;
    if (level.positions != kUnknown && last > level.positions) faults |= kFaultOverflow;
    if (level.positions != kUnknown && exact && last != level.positions) faults |= kFaultPointers;
    return faults;
  }

  // Returns the faults of the entries below each parent. The pointers rise from 0, so no position is checked twice. If
  // a level above overflowed, the last pointer also counts the positions below parents that exceed the capacity. A
  // range level may have the capacity for these positions, so the run of its last parent seems too long, and is not
  // checked.
  int32_t faults_of_segments(int l, bool overflowed) const {
    const auto at = static_cast<size_t>(l);
    const LevelReader<Index>& level = in[at];
    const int64_t room = level.positions == kUnknown ? kFar : level.positions;
    const int64_t work = level.level.traits().coordinates ? std::max(level.parents, room) : level.parents;
    const int64_t parents = level.parents - (overflowed && level.level.traits().starts ? 1 : 0);
    std::atomic<int32_t> faults{0};
    slices(ctx, parents, slice_count(ctx, work), [&](int64_t, int64_t begin, int64_t end) noexcept {
      const int32_t mine = faults_below(&level, layout.chain_end[at] - l, begin, end, room);
      if (mine != 0) faults |= mine;
    });
    return faults.load();
  }

  int32_t run(int64_t slots) const {
    int32_t faults = 0;
    int64_t above = 1;  // number of positions in the level above
    for (int l = 0; l < layout.count(); ++l) {
      const LevelReader<Index>& level = in[static_cast<size_t>(l)];
      const int64_t parents = above;
      above = level.positions;
      if (level.level.traits().computed()) continue;
      if (!lengths_fit(l, parents)) return faults | kFaultPointers;
      if (!level.level.traits().pointers) continue;
      faults |= faults_of_pointers(level);
      if (rises(ctx, level.pointers, level.parents)) faults |= faults_of_segments(l, (faults & kFaultOverflow) != 0);
      else faults |= kFaultPointers;  // segments may overlap, and a loop over all of them could take too long
    }
    if (exact && slots != kUnknown && above != slots) faults |= kFaultPointers;
    return faults;
  }
};

}  // namespace

int32_t find_faults(Context* ctx, const Layout& layout, const IndexArrays& given, int64_t slots, bool exact) {
  return given.wide ? Validation<int64_t>(ctx, layout, given, slots, exact).run(slots)
                    : Validation<int32_t>(ctx, layout, given, slots, exact).run(slots);
}

}  // namespace jsparse
