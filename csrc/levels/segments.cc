#include "levels/segments.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "memory/scratch.h"
#include "sort/key_value_sort.h"
#include "sort/packing.h"
#include "threads/loops.h"

namespace jsparse {
namespace {

// Writes the pointers of segments of lengths length(p). Returns the number of positions, or -1 if there are too many.
template <class Index, class Length>
int64_t fill_pointers(Context* ctx, int64_t parents, int64_t work, Index* pointers, const Length& length) {
  constexpr int64_t kMost = std::numeric_limits<Index>::max();
  const int64_t parts = slice_count(ctx, std::max(parents, work));
  std::vector<int64_t> totals(static_cast<size_t>(parts) + 1, 0);
  slices(ctx, parents, parts, [&](int64_t t, int64_t begin, int64_t end) noexcept {
    int64_t sum = 0;
    for (int64_t p = begin; p < end; ++p) {
      sum += length(p);
      pointers[p + 1] = static_cast<Index>(std::min(sum, kMost));
    }
    totals[static_cast<size_t>(t) + 1] = sum;
  });
  for (size_t t = 0; t + 1 < totals.size(); ++t) totals[t + 1] += totals[t];
  if (totals.back() > kMost) return -1;
  pointers[0] = 0;
  slices(ctx, parents, parts, [&](int64_t t, int64_t begin, int64_t end) noexcept {
    const auto before = static_cast<Index>(totals[static_cast<size_t>(t)]);
    for (int64_t p = begin; p < end && before != 0; ++p) pointers[p + 1] += before;
  });
  return totals.back();
}

// Calls f(begin, end) for slices of parents with about equal numbers of positions.
template <class Index, class F>
void by_positions(Context* ctx, int64_t parents, const Index* pointers, int64_t most_slices, const F& f) {
  const int64_t n = pointers[parents];
  const int64_t parts = std::max<int64_t>(std::min(slice_count(ctx, std::max(n, parents)), most_slices), 1);
  const auto bound = [&](int64_t t) {
    if (t == 0 || t == parts) return t == 0 ? int64_t{0} : parents;
    const auto wanted = static_cast<Index>(slice_begin(n, parts, t));
    return static_cast<int64_t>(std::lower_bound(pointers, pointers + parents, wanted) - pointers);
  };
  each(ctx, parts, [&](int64_t t) noexcept { f(t, bound(t), bound(t + 1)); });
}

// Sorts positions by coordinates, which are distinct. `scratch` has room for two copies of them.
template <class Index>
void sort_segment(Index* coordinates, Index* positions, int64_t n, int bits, KeyValue<std::make_unsigned_t<Index>>* scratch) {
  using Word = std::make_unsigned_t<Index>;
  bool sorted = true;
  for (int64_t i = 1; i < n; ++i) sorted &= coordinates[i - 1] < coordinates[i];
  if (sorted) return;
  if (n <= 24) {
    for (int64_t i = 1; i < n; ++i) {
      const Index c = coordinates[i], p = positions[i];
      int64_t j = i;
      for (; j > 0 && coordinates[j - 1] > c; --j) coordinates[j] = coordinates[j - 1], positions[j] = positions[j - 1];
      coordinates[j] = c;
      positions[j] = p;
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) scratch[i] = {static_cast<Word>(coordinates[i]), static_cast<Word>(positions[i])};
  key_value_sort(scratch, scratch + n, n, bits);
  for (int64_t i = 0; i < n; ++i) {
    coordinates[i] = static_cast<Index>(scratch[i].key);
    positions[i] = static_cast<Index>(scratch[i].value);
  }
}

// Returns the number of new coordinates of an old one.
template <class Index>
int64_t copies(const NewCoordinates<Index>& table, Index c) {
  if (c < 0 || c >= table.extent) return 0;
  if (table.starts == nullptr) return table.items[c] >= 0;
  const int64_t first = table.starts[c], last = table.starts[c + 1];
  return first >= 0 && first <= last && last <= table.listed ? last - first : 0;
}

}  // namespace

template <class Index>
int64_t Taking<Index>::count(Context* ctx, Index* pointers) const {
  const auto length = [&](int64_t q) -> int64_t {
    const int64_t p = parents == nullptr ? q : parents[q];
    if (p < 0 || p >= from.parents) return 0;
    const int64_t begin = from.begin(p), end = from.end(p);
    if (table.items == nullptr) return end - begin;
    int64_t sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += copies(table, from.coordinates[i]);
    return sum;
  };
  return fill_pointers(ctx, parent_count, from.positions, pointers, length);
}

template <class Index>
void Taking<Index>::write(Context* ctx, const Index* pointers, Index* coordinates, Index* positions) const {
  const int64_t n = pointers[parent_count];
  int64_t longest = 0;
  for (int64_t q = 0; q < parent_count; ++q) longest = std::max<int64_t>(longest, pointers[q + 1] - pointers[q]);
  const bool sorting = table.items != nullptr && !table.increases;
  const int64_t most = sorting ? n / std::max<int64_t>(longest, 1) : std::numeric_limits<int64_t>::max();
  const int64_t workers = std::max<int64_t>(std::min(slice_count(ctx, std::max(n, parent_count)), most), 1);
  using Entry = KeyValue<std::make_unsigned_t<Index>>;
  const Scratch<Entry> scratch(sorting ? 2 * longest * workers : 0);
  const int bits = bits_for(table.size);
  by_positions(ctx, parent_count, pointers, most, [&](int64_t t, int64_t first, int64_t last) noexcept {
    for (int64_t q = first; q < last; ++q) {
      const int64_t p = parents == nullptr ? q : parents[q], at = pointers[q], size = pointers[q + 1] - at;
      if (size == 0) continue;
      const int64_t begin = from.begin(p), end = from.end(p);
      if (table.items == nullptr) {
        for (int64_t i = 0; i < size; ++i) {
          coordinates[at + i] = from.coordinates[begin + i];
          positions[at + i] = static_cast<Index>(begin + i);
        }
        continue;
      }
      int64_t to = at;
      for (int64_t i = begin; i < end; ++i) {
        const Index c = from.coordinates[i];
        const int64_t own = copies(table, c);
        const Index* const items = table.items + (own == 0 ? 0 : table.starts == nullptr ? c : table.starts[c]);
        for (int64_t k = 0; k < own; ++k, ++to) coordinates[to] = items[k], positions[to] = static_cast<Index>(i);
      }
      if (sorting) sort_segment(coordinates + at, positions + at, size, bits, scratch.get() + 2 * longest * t);
    }
  });
}

template <class Index>
int64_t Joining<Index>::count(Context* ctx, Index* pointers) const {
  int64_t work = 0;
  for (const auto& part : parts) work += part.positions;
  return fill_pointers(ctx, parts[0].parents, work, pointers, [&](int64_t p) {
    int64_t sum = 0;
    for (const auto& part : parts) sum += part.end(p) - part.begin(p);
    return sum;
  });
}

template <class Index>
void Joining<Index>::write(Context* ctx, const Index* pointers, Index* coordinates, Index* positions) const {
  std::vector<int64_t> before(parts.size() + 1, 0);
  for (size_t k = 0; k < parts.size(); ++k) before[k + 1] = before[k] + parts[k].positions;
  const int64_t parents = parts[0].parents;
  by_positions(ctx, parents, pointers, parents, [&](int64_t, int64_t first, int64_t last) noexcept {
    for (int64_t p = first; p < last; ++p) {
      int64_t to = pointers[p];
      for (size_t k = 0; k < parts.size(); ++k) {
        const int64_t begin = parts[k].begin(p), size = parts[k].end(p) - begin;
        const auto shift = static_cast<Index>(shifts[k]), offset = static_cast<Index>(before[k] + begin);
        for (int64_t i = 0; i < size; ++i) {
          coordinates[to + i] = parts[k].coordinates[begin + i] + shift;
          positions[to + i] = offset + static_cast<Index>(i);
        }
        to += size;
      }
    }
  });
}

template <class Index>
int64_t Pairing<Index>::count(Context* ctx, Index* pointers) const {
  const int64_t inner = second.parents;
  return fill_pointers(ctx, first.parents * inner, first.positions, pointers, [&](int64_t p) {
    const int64_t a = p / inner, b = p % inner;
    return (first.end(a) - first.begin(a)) * (second.end(b) - second.begin(b));
  });
}

template <class Index>
void Pairing<Index>::write(Context* ctx, const Index* pointers, Index* in_first, Index* in_second) const {
  const int64_t inner = second.parents, parents = first.parents * inner;
  by_positions(ctx, parents, pointers, parents, [&](int64_t, int64_t begin, int64_t end) noexcept {
    for (int64_t p = begin; p < end; ++p) {
      int64_t to = pointers[p];
      if (to == pointers[p + 1]) continue;
      const int64_t a = p / inner, b = p % inner;
      for (int64_t i = first.begin(a); i < first.end(a); ++i) {
        for (int64_t j = second.begin(b); j < second.end(b); ++j, ++to) {
          in_first[to] = static_cast<Index>(i);
          in_second[to] = static_cast<Index>(j);
        }
      }
    }
  });
}

template struct Taking<int32_t>;
template struct Taking<int64_t>;
template struct Joining<int32_t>;
template struct Joining<int64_t>;
template struct Pairing<int32_t>;
template struct Pairing<int64_t>;

}  // namespace jsparse
