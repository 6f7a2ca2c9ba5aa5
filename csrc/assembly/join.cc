#include "assembly/join.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "levels/dense.h"

namespace jsparse {
namespace {

// The items of a part. The items of each level are numbered from 0.
template <class Index>
struct Items {
  const Part& part;

  const Index* coordinates(int level) const {
    return reinterpret_cast<const Index*>(part.coordinates) + level * part.room + part.start;
  }

  // Returns how many items of level `to` lie below the first n items of level `from`. Level -1 has one item, the root.
  int64_t below(int from, int64_t n, int to) const {
    if (from < 0) return n > 0 ? part.count[to] : 0;
    for (int level = from; level < to && n > 0; ++level) {
      n = part.ends[level * part.room + part.start + n - 1] - part.start;
    }
    return n;
  }
};

// Finds the positions of a part's items, one level at a time, in ascending order of the items. `before` has the number of
// items before the part, by level.
template <class Index>
class Positions {
 public:
  Positions(const Layout& layout, const Items<Index>& items, const int64_t* before)
      : layout_(layout), items_(items), before_(before) {}

  int64_t of(int level, int64_t item) {
    if (level < 0) return 0;
    if (!layout_.at(level).traits().computed()) return before_[level] + item;
    while (item >= items_.below(level - 1, parent_[level] + 1, level)) ++parent_[level];
    return dense_position(of(level - 1, parent_[level]), layout_.at(level).size, items_.coordinates(level)[item]);
  }

 private:
  const Layout& layout_;
  const Items<Index>& items_;
  const int64_t* const before_;
  int64_t parent_[kMaxLevels] = {0};  // the item above the last one, by dense level
};

}  // namespace

Join::Join(const Layout& layout, bool wide, std::vector<IndexArray> arrays)
    : layout_(layout), wide_(wide), pointers_(static_cast<size_t>(layout.count())), coordinates_(pointers_.size()) {
  const std::vector<LevelArrays> levels = layout.by_level(arrays);
  for (size_t l = 0; l < levels.size(); ++l) {
    pointers_[l] = levels[l].pointers;
    coordinates_[l] = levels[l].coordinates;
  }
}

Join::Offsets Join::next(const Part& part) {
  Offsets offsets;
  int64_t last = 0;  // position of the last item in the level above
  for (int l = 0; l < layout_.count(); ++l) {
    offsets.items[l] = totals_[l];
    offsets.pointers[l] = pointers_done_[l];
    if (layout_.at(l).traits().pointers && part.count[l] > 0) pointers_done_[l] = last + 1;
    totals_[l] += part.count[l];
    if (!layout_.at(l).traits().computed()) {
      last = totals_[layout_.chain_end[static_cast<size_t>(l)] - 1] - 1;
    } else if (part.count[l] > 0) {
      const int64_t at = l * part.room + part.start + part.count[l] - 1;
      const int64_t coordinate = wide_ ? reinterpret_cast<const int64_t*>(part.coordinates)[at]
                                       : reinterpret_cast<const int32_t*>(part.coordinates)[at];
      last = dense_position(last, layout_.at(l).size, coordinate);
    }
  }
  return offsets;
}

void Join::write(const Part& part, const Offsets& offsets) const noexcept {
  if (wide_) write_as<int64_t>(part, offsets);
  else write_as<int32_t>(part, offsets);
}

template <class Index>
void Join::write_as(const Part& part, const Offsets& offsets) const {
  const Items<Index> items{part};
  for (int begin = 0; begin < layout_.count(); ++begin) {
    if (!layout_.at(begin).traits().pointers) continue;
    const int end = layout_.chain_end[static_cast<size_t>(begin)], last = end - 1;
    const IndexArray& pointers = pointers_[static_cast<size_t>(begin)];
    auto* const to = static_cast<Index*>(pointers.data);
    if (begin > 0) {
      Positions<Index> positions(layout_, items, offsets.items);
      int64_t next = offsets.pointers[begin];
      for (int64_t parent = 0; parent < part.count[begin - 1]; ++parent) {
        const int64_t position = positions.of(begin - 1, parent);
        const Index start = narrowed<Index>(offsets.items[last] + items.below(begin - 1, parent, last));
        for (const int64_t stop = std::min(position + 1, pointers.length); next < stop; ++next) to[next] = start;
      }
    }
    // All levels of a chain have the positions of its last level, so coordinates of the other levels repeat.
    for (int l = begin; l < end; ++l) {
      const IndexArray& array = coordinates_[static_cast<size_t>(l)];
      auto* const out = static_cast<Index*>(array.data) + offsets.items[last];
      const int64_t room = std::max<int64_t>(array.length - offsets.items[last], 0);
      const Index* from = items.coordinates(l);
      if (l == last) {
        std::memcpy(out, from, static_cast<size_t>(std::min(part.count[l], room)) * sizeof(Index));
        continue;
      }
      int64_t at = 0;
      for (int64_t item = 0; item < part.count[l]; ++item) {
        for (const int64_t stop = std::min(items.below(l, item + 1, last), room); at < stop; ++at) out[at] = from[item];
      }
    }
  }
}

void Join::finish() const {
  if (wide_) finish_as<int64_t>();
  else finish_as<int32_t>();
}

template <class Index>
void Join::finish_as() const {
  for (int l = 0; l < layout_.count(); ++l) {
    if (layout_.at(l).traits().computed()) continue;
    const int64_t total = totals_[layout_.chain_end[static_cast<size_t>(l)] - 1];
    const IndexArray& pointers = pointers_[static_cast<size_t>(l)];
    const IndexArray& coordinates = coordinates_[static_cast<size_t>(l)];
    if (layout_.at(l).traits().pointers && pointers.length > 0) {
      auto* const to = static_cast<Index*>(pointers.data);
      // The first pointer that no parent has written is the end of the last parent's items.
      for (int64_t p = l == 0 ? 1 : pointers_done_[l]; p < pointers.length; ++p) to[p] = narrowed<Index>(total);
      if (l == 0) to[0] = 0;
      to[pointers.length - 1] = narrowed<Index>(total);
    }
    auto* const to = static_cast<Index*>(coordinates.data);
    for (int64_t p = std::min(total, coordinates.length); p < coordinates.length; ++p) to[p] = 0;
  }
}

}  // namespace jsparse
