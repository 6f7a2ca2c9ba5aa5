// Points descend through the levels in blocks, level by level. So the reads of one point need not wait for the reads of
// another one, although each read depends on the result of the read in the level above.
#include "levels/locate.h"

#include <algorithm>

#include "levels/level_reader.h"
#include "levels/positions.h"
#include "threads/loops.h"

namespace jsparse {
namespace {

constexpr int64_t kPoints = 128;

// The positions [begin, end) of some points in one level, which may be none.
struct Ranges {
  int64_t begin[kPoints], end[kPoints], coordinate[kPoints];
  int64_t count;

  void clear(int64_t i) { begin[i] = end[i] = 0; }
  bool is_empty(int64_t i) const { return begin[i] >= end[i]; }
  void set(int64_t i, int64_t first, int64_t last, int64_t limit) {
    begin[i] = std::max<int64_t>(first, 0);
    end[i] = std::max(std::min(last, limit), begin[i]);
  }
};

// Reads the coordinates of the points of a block in one dimension. Points outside the dimension are at no position.
template <class T>
void read_points(const T* from, int64_t size, Ranges* block) {
  for (int64_t i = 0; i < block->count; ++i) {
    const auto c = static_cast<int64_t>(from[i]);
    block->coordinate[i] = c;
    if (c < 0 || c >= size) block->clear(i);
  }
}

// Returns the first position of [begin, end) whose coordinate is at least c, or end. No step branches on a coordinate.
template <class Index>
int64_t lower_bound(const Index* coordinates, int64_t begin, int64_t end, int64_t c) {
  int64_t size = end - begin;
  while (size > 1) {
    const int64_t half = size / 2;
    begin += coordinates[begin + half - 1] < c ? half : 0;
    size -= half;
  }
  return begin + (size == 1 && coordinates[begin] < c);
}

template <class Index>
void descend_dense(const LevelReader<Index>& in, Ranges* block) {
  for (int64_t i = 0; i < block->count; ++i) {
    if (block->is_empty(i)) continue;
    const int64_t position = add_positions(multiply_positions(block->begin[i], in.level.size), block->coordinate[i]);
    block->begin[i] = position;
    block->end[i] = position + 1;
  }
}

template <class Index>
void descend_pointers(const LevelReader<Index>& in, Ranges* block) {
  for (int64_t i = 0; i < block->count; ++i) __builtin_prefetch(in.pointers + block->begin[i]);
  for (int64_t i = 0; i < block->count; ++i) {
    const int64_t parent = block->begin[i];
    if (block->is_empty(i) || parent >= in.parents) block->clear(i);
    else block->set(i, in.pointers[parent], in.pointers[parent + 1], in.positions);
  }
}

template <class Index>
void descend_run(const LevelReader<Index>& in, Ranges* block) {
  for (int64_t i = 0; i < block->count; ++i) {
    const int64_t parent = block->begin[i];
    if (block->is_empty(i) || parent >= in.parents) {
      block->clear(i);
      continue;
    }
    const int64_t offset = block->coordinate[i] - in.starts[parent], first = in.pointers[parent];
    if (offset < 0 || first + offset >= in.pointers[parent + 1]) block->clear(i);
    else block->set(i, first + offset, first + offset + 1, in.positions == kUnknown ? kFar : in.positions);
  }
}

template <class Index>
void descend_coordinates(const LevelReader<Index>& in, Ranges* block) {
  for (int64_t i = 0; i < block->count; ++i) __builtin_prefetch(in.coordinates + (block->begin[i] + block->end[i]) / 2);
  for (int64_t i = 0; i < block->count; ++i) {
    const int64_t end = std::min(block->end[i], in.positions), c = block->coordinate[i];
    const int64_t first = lower_bound(in.coordinates, std::min(block->begin[i], end), end, c);
    const bool repeats = !in.level.unique;
    block->begin[i] = first;
    block->end[i] = repeats ? lower_bound(in.coordinates, first, end, c + 1) : first + (first < end && in.coordinates[first] == c);
  }
}

template <class Index>
void descend(const LevelReader<Index>& in, Ranges* block) {
  switch (in.level.kind) {
    case kDense: return descend_dense(in, block);
    case kRange: return descend_run(in, block);
    case kCompressed: descend_pointers(in, block); [[fallthrough]];
    default: return descend_coordinates(in, block);
  }
}

template <class Index, class Slot>
void locate_as(Context* ctx, const Layout& layout, const IndexArrays& given, int64_t nse, const std::vector<Key>& points,
               int64_t count, Slot* slots) {
  const std::vector<LevelReader<Index>> in = read_levels<Index>(layout, given, nse);
  slices(ctx, count, slice_count(ctx, count), [&](int64_t, int64_t first, int64_t last) noexcept {
    Ranges block;
    for (int64_t at = first; at < last; at += kPoints) {
      block.count = std::min(kPoints, last - at);
      std::fill_n(block.begin, block.count, 0);
      std::fill_n(block.end, block.count, 1);
      for (const LevelReader<Index>& level : in) {
        const Key& key = points[static_cast<size_t>(level.level.dim)];
        if (key.wide) read_points(static_cast<const int64_t*>(key.data) + at, key.size, &block);
        else read_points(static_cast<const int32_t*>(key.data) + at, key.size, &block);
        descend(level, &block);
      }
      for (int64_t i = 0; i < block.count; ++i) {
        const bool stored = !block.is_empty(i) && block.begin[i] < nse;
        slots[at + i] = stored ? static_cast<Slot>(block.begin[i]) : Slot{-1};
      }
    }
  });
}

}  // namespace

void locate(Context* ctx, const Layout& layout, const IndexArrays& given, int64_t nse, const std::vector<Key>& points,
            int64_t count, void* slots, bool wide) {
  const auto run = [&](auto* to) {
    if (given.wide) locate_as<int64_t>(ctx, layout, given, nse, points, count, to);
    else locate_as<int32_t>(ctx, layout, given, nse, points, count, to);
  };
  if (wide) run(static_cast<int64_t*>(slots));
  else run(static_cast<int32_t*>(slots));
}

}  // namespace jsparse
