#include "levels/validate.h"

#include <algorithm>
#include <atomic>

#include "levels/index_arrays.h"
#include "threads/loops.h"

namespace jsparse {
namespace {

// Of the children of one parent: increasing tuples of the chain, unique where they must be.
template <class Index>
int32_t faults_of_parent(const Layout& layout, const Levels<Index>& in, int level, int64_t begin, int64_t end) {
  const int stop = layout.chain_end[static_cast<size_t>(level)];
  int32_t faults = 0;
  for (int64_t p = begin; p < end; ++p) {
    for (int l = level; l < stop; ++l) {
      const int64_t c = in.coordinates[l][p];
      if (c < 0 || c >= layout.at(l).size) faults |= kFaultCoordinates;
    }
    if (p == begin) continue;
    int l = level;
    while (l < stop && in.coordinates[l][p] == in.coordinates[l][p - 1]) ++l;
    if (l == stop || in.coordinates[l][p] < in.coordinates[l][p - 1]) faults |= kFaultOrder;
    for (int above = level; above < l && above < stop - 1; ++above) {
      if (layout.at(above).unique) faults |= kFaultOrder;
    }
  }
  return faults;
}

template <class Index>
int32_t faults_with(Context* ctx, const Layout& layout, const IndexArrays& given, bool exact) {
  const Levels<Index> in(layout, given);
  int64_t above = 1;  // positions there is room for, one level up
  std::atomic<int32_t> faults{0};
  for (int l = 0; l < layout.count(); ++l) {
    const int64_t expected = above;
    above = in.positions[l];
    if (layout.at(l).kind == kDense) continue;
    if (layout.at(l).kind == kSingleton) {
      if (in.positions[l] < expected) return faults | kFaultPointers;
      continue;
    }
    const Index* pointers = in.pointers[l];
    if (in.parents[l] != expected || pointers == nullptr) return faults | kFaultPointers;
    const int64_t parents = in.parents[l], room = in.positions[l];
    for (int m = l + 1; m < layout.chain_end[static_cast<size_t>(l)]; ++m) {
      if (in.positions[m] != room) return faults | kFaultPointers;
    }
    if ((parents > 0 || exact) && pointers[0] != 0) faults |= kFaultPointers;  // and then, as they rise, none is negative
    if (pointers[parents] > room) faults |= kFaultOverflow;
    if (exact && pointers[parents] != room) faults |= kFaultPointers;
    if (!rises(ctx, pointers, parents)) {  // and then ranges may overlap, so that walking them all could take forever
      faults |= kFaultPointers;
      continue;
    }
    const int64_t work = std::max(parents, room);
    slices(ctx, parents, slice_count(ctx, work), [&](int64_t, int64_t begin, int64_t end) {
      int32_t mine = 0;
      for (int64_t q = begin; q < end; ++q) {
        const int64_t from = pointers[q], to = pointers[q + 1];
        if (from >= 0) mine |= faults_of_parent(layout, in, l, from, std::min(to, room));
      }
      if (mine != 0) faults |= mine;
    });
  }
  return faults;
}

}  // namespace

int32_t find_faults(Context* ctx, const Layout& layout, const IndexArrays& given, bool exact) {
  return given.wide ? faults_with<int64_t>(ctx, layout, given, exact) : faults_with<int32_t>(ctx, layout, given, exact);
}

}  // namespace jsparse
