#include "levels/expand.h"

#include <algorithm>

#include "levels/index_arrays.h"
#include "memory/scratch.h"
#include "threads/loops.h"

namespace jsparse {
namespace {

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

}  // namespace

void expand(Context* ctx, const Layout& layout, const IndexArrays& given, int64_t nse, const std::vector<void*>& rows) {
  if (given.wide) expand_with<int64_t>(ctx, layout, given, nse, rows);
  else expand_with<int32_t>(ctx, layout, given, nse, rows);
}

}  // namespace jsparse
