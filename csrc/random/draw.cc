#include "random/draw.h"

#include <algorithm>

#include "random/threefry.h"
#include "threads/loops.h"

namespace jsparse {
namespace {

// Returns a number below `size` from random bits. Its probability differs from 1 / size by less than 2^-64.
inline uint64_t below(uint64_t size, uint64_t bits) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * size) >> 64);
}

// Bentley and Floyd's algorithm F: draw j takes a number up to size - count + j, or this largest number if the other was
// taken before.
template <class Index>
void draw_row(const Draw& draw, int64_t row) {
  const int64_t size = static_cast<const Index*>(draw.sizes)[row];
  Index* const chosen = static_cast<Index*>(draw.chosen) + row * draw.count;
  for (int64_t j = 0; j < draw.count; ++j) {
    if (size <= draw.count) {
      chosen[j] = static_cast<Index>(j);
      continue;
    }
    const int64_t most = size - draw.count + j;
    const uint64_t bits = threefry(draw.key, static_cast<uint32_t>(row), static_cast<uint32_t>(j));
    const auto number = static_cast<Index>(below(static_cast<uint64_t>(most) + 1, bits));
    const bool repeated = std::find(chosen, chosen + j, number) != chosen + j;
    chosen[j] = repeated ? static_cast<Index>(most) : number;
  }
}

}  // namespace

void draw(Context* ctx, const Draw& draw) {
  const int64_t parts = draw.count == 0 ? 1 : slice_count(ctx, draw.rows * draw.count);
  slices(ctx, draw.rows, parts, [&](int64_t, int64_t begin, int64_t end) noexcept {
    for (int64_t row = begin; row < end; ++row) draw.wide ? draw_row<int64_t>(draw, row) : draw_row<int32_t>(draw, row);
  });
}

}  // namespace jsparse
