#include "expand.h"

#include <atomic>
#include <type_traits>

namespace jsparse {
namespace {

// The index arrays by level, with the number of positions there is room for.
template <class Index>
struct Levels {
  const Index* pointers[kMaxLevels] = {nullptr};
  int64_t parents[kMaxLevels] = {0};  // that the pointers have room for
  const Index* coordinates[kMaxLevels] = {nullptr};
  int64_t positions[kMaxLevels] = {0};

  Levels(const Layout& layout, const IndexArrays& given) {
    size_t a = 0;
    int64_t above = 1;
    for (int l = 0; l < layout.count(); ++l) {
      if (layout.at(l).kind == kDense) {
        if (__builtin_mul_overflow(above, layout.at(l).size, &positions[l])) positions[l] = int64_t{1} << 62;
      } else {
        if (layout.at(l).kind == kCompressed) {
          pointers[l] = static_cast<const Index*>(given.arrays[a].data);
          parents[l] = std::max<int64_t>(0, std::min(given.arrays[a++].length - 1, above));
        }
        coordinates[l] = static_cast<const Index*>(given.arrays[a].data);
        positions[l] = given.arrays[a++].length;
      }
      above = positions[l];
    }
  }
};

template <class Index>
bool rises(Context* ctx, const Index* pointers, int64_t parents) {
  std::atomic<bool> ok{true};
  slices(ctx, parents, slice_count(ctx, parents), [&](int64_t, int64_t begin, int64_t end) {
    bool mine = true;
    for (int64_t q = begin; q < end; ++q) mine &= pointers[q] <= pointers[q + 1];
    if (!mine) ok.store(false, std::memory_order_relaxed);
  });
  return ok.load();
}

// parent[p] for every position p < count, or -1. A position belongs to the first parent whose range holds it and begins
// no earlier than the ranges before it end, so garbage costs no more than pointers that rise.
template <class Index>
void fill_parents(Context* ctx, const Index* pointers, int64_t parents, int64_t count, Index* parent) {
  const auto clamped = [&](int64_t p) { return std::min(std::max<int64_t>(p, 0), count); };
  const bool rising = parents > 0 && rises(ctx, pointers, parents);
  if (!rising) {
    for (int64_t p = 0; p < count; ++p) parent[p] = -1;
    int64_t free = 0;
    for (int64_t q = 0; q < parents; ++q) {
      int64_t p = std::max(free, clamped(pointers[q]));
      const int64_t end = clamped(pointers[q + 1]);
      for (; p < end; ++p) parent[p] = static_cast<Index>(q);
      free = std::max(free, end);
    }
    return;
  }
  for (int64_t p = 0; p < clamped(pointers[0]); ++p) parent[p] = -1;
  for (int64_t p = clamped(pointers[parents]); p < count; ++p) parent[p] = -1;
  slices(ctx, parents, slice_count(ctx, std::max(parents, count)), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t q = begin; q < end; ++q) {
      const int64_t stop = clamped(pointers[q + 1]);
      for (int64_t p = clamped(pointers[q]); p < stop; ++p) parent[p] = static_cast<Index>(q);
    }
  });
}

template <class Index>
void expand_with(Context* ctx, const Layout& layout, const IndexArrays& given, int64_t nse, const std::vector<void*>& rows) {
  constexpr int64_t kBlock = 1024;
  const int levels = layout.count();
  const Levels<Index> in(layout, given);
  std::vector<Scratch<Index>> parent(static_cast<size_t>(levels));
  for (int l = 0; l < levels; ++l) {
    if (layout.at(l).kind != kCompressed) continue;
    parent[static_cast<size_t>(l)] = Scratch<Index>(in.positions[l]);
    fill_parents(ctx, in.pointers[l], in.parents[l], in.positions[l], parent[static_cast<size_t>(l)].get());
  }
  const int64_t blocks = (nse + kBlock - 1) / kBlock;
  slices(ctx, blocks, slice_count(ctx, nse), [&](int64_t, int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b) {
      const int64_t begin = b * kBlock, count = std::min(nse - begin, kBlock);
      int64_t at[kBlock];
      bool outside[kBlock];
      for (int64_t i = 0; i < count; ++i) at[i] = begin + i, outside[i] = false;
      for (int l = levels - 1; l >= 0; --l) {
        const LevelOf& level = layout.at(l);
        auto* row = static_cast<Index*>(rows[static_cast<size_t>(level.dim)]);
        const int64_t size = level.size, room = in.positions[l];
        if (level.kind == kDense) {
          for (int64_t i = 0; i < count; ++i) {
            if (at[i] < 0 || at[i] >= room) {  // size may be 0: then so is room
              outside[i] = true, at[i] = -1;
              continue;
            }
            const int64_t up = l == 0 ? 0 : at[i] / size;
            if (row != nullptr) row[begin + i] = static_cast<Index>(at[i] - up * size);
            at[i] = up;
          }
          continue;
        }
        const Index* up = parent[static_cast<size_t>(l)].get();
        for (int64_t i = 0; i < count; ++i) {
          if (at[i] < 0 || at[i] >= room) {
            outside[i] = true, at[i] = -1;
            continue;
          }
          const int64_t c = in.coordinates[l][at[i]];
          outside[i] |= c < 0 || c >= size;
          if (row != nullptr) row[begin + i] = static_cast<Index>(c);
          if (level.kind == kCompressed) at[i] = up[at[i]];
        }
      }
      for (int64_t i = 0; i < count; ++i) {
        if (!outside[i] && at[i] == 0) continue;  // reached the root
        for (int l = 0; l < levels; ++l) {
          auto* row = static_cast<Index*>(rows[static_cast<size_t>(layout.at(l).dim)]);
          if (row != nullptr) row[begin + i] = static_cast<Index>(layout.at(l).size);
        }
      }
    }
  });
}

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

void expand(Context* ctx, const Layout& layout, const IndexArrays& given, int64_t nse, const std::vector<void*>& rows) {
  if (given.wide) expand_with<int64_t>(ctx, layout, given, nse, rows);
  else expand_with<int32_t>(ctx, layout, given, nse, rows);
}

int32_t find_faults(Context* ctx, const Layout& layout, const IndexArrays& given, bool exact) {
  return given.wide ? faults_with<int64_t>(ctx, layout, given, exact) : faults_with<int32_t>(ctx, layout, given, exact);
}

}  // namespace jsparse
