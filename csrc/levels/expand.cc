#include "levels/expand.h"

#include <algorithm>

#include "levels/levels.h"
#include "levels/pointers.h"
#include "memory/scratch.h"
#include "threads/loops.h"

namespace jsparse {
namespace {

constexpr int64_t kGroup = 8;

// Writes the parent of every position p < count, or -1. If segments overlap, a position belongs to the first one that
// contains it, and each segment is cut to begin after the earlier ones. So pointers that do not rise cost no more time
// than pointers that do.
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
  slices(ctx, parents, slice_count(ctx, std::max(parents, count)), [&](int64_t, int64_t begin, int64_t end) noexcept {
    // Most segments are short, so we write a whole group for each. Later segments overwrite the elements that belong to
    // them.
    const int64_t limit = clamped(pointers[end]);
    for (int64_t q = begin; q < end; ++q) {
      int64_t p = clamped(pointers[q]);
      const int64_t stop = clamped(pointers[q + 1]);
      if (p + kGroup <= limit) {
        for (int64_t k = 0; k < kGroup; ++k) parent[p + k] = static_cast<Index>(q);
        p += kGroup;
      }
      for (; p < stop; ++p) parent[p] = static_cast<Index>(q);
    }
  });
}

template <class Index>
void expand_with(Context* ctx, const Layout& layout, const IndexArrays& given, int64_t nse, const std::vector<void*>& rows) {
  const std::vector<LevelReader<Index>> in = read_levels<Index>(layout, given, nse);
  std::vector<Scratch<Index>> parents(in.size());
  for (size_t l = 0; l < in.size(); ++l) {
    if (!in[l].level.traits().pointers) continue;
    const int64_t positions = std::max<int64_t>(in[l].positions, 0);
    parents[l] = Scratch<Index>(positions);
    fill_parents(ctx, in[l].pointers, in[l].parents, positions, parents[l].get());
  }
  const int64_t blocks = (nse + Block::kSize - 1) / Block::kSize;
  slices(ctx, blocks, slice_count(ctx, nse), [&](int64_t, int64_t first, int64_t last) noexcept {
    Block block;
    for (int64_t b = first; b < last; ++b) {
      const int64_t begin = b * Block::kSize;
      block.start(begin, nse);
      const auto row = [&](size_t l) {
        auto* const whole = static_cast<Index*>(rows[static_cast<size_t>(in[l].level.dim)]);
        return whole == nullptr ? nullptr : whole + begin;
      };
      for (size_t l = in.size(); l-- > 0;) ascend(in[l], l == 0, parents[l].get(), &block, row(l));
      block.write_positions();
      for (int64_t i = 0; i < block.count; ++i) {
        if (!block.outside[i] && block.position[i] == 0) continue;  // the slot leads to the root
        for (size_t l = 0; l < in.size(); ++l) {
          if (Index* const to = row(l)) to[i] = static_cast<Index>(in[l].level.size);
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
