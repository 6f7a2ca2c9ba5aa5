// A walk over tuples in storage order that writes the index arrays of all levels.
#pragma once

#include <cstdint>
#include <vector>

#include "assembly/assemble.h"
#include "levels/levels.h"

namespace jsparse {

// The state of a walk: the position of the last tuple in each level, and how far the arrays are written.
template <class Index, class Slot>
struct Walk {
  const Layout& layout;
  int64_t position[kMaxLevels + 1];  // position[l + 1]: of the last tuple in level l; position[0] is the root's
  LevelWriter<Index> writers[kMaxLevels];
  FilledArray<Slot> starts;
  int64_t groups = 0;

  // `arrays[l]` holds the index arrays of level l, as Layout::by_level makes them.
  Walk(const Layout& layout, const std::vector<LevelArrays>& arrays, const Assembly& out) noexcept
      : layout(layout), starts(out.starts) {
    for (size_t l = 0; l < arrays.size(); ++l) writers[l] = LevelWriter<Index>(arrays[l]);
    position[0] = 0;
  }

  // Continues after tuple s - 1. `before` has the number of positions of each level up to that tuple.
  template <class Tuples>
  void resume(const Tuples& tuples, int64_t s, const int64_t* before) {
    for (int l = 0; l < layout.count(); ++l) {
      const int64_t coordinate = tuples.coordinate(s - 1, l);
      position[l + 1] = resume_level(layout.at(l), &writers[l], position[l], coordinate, before[l]);
    }
    groups = before[layout.count()];
  }

  // Returns the first element of `starts` that no tuple has written so far.
  int64_t first_start(const Assembly& out) const {
    const int64_t slot = position[layout.count()];
    return slot >= out.slot_count ? starts.length : slot + 1;
  }

  // Enters tuple s. `level` is the first level at which it differs from the tuple before; its chain and all levels
  // below get a new position.
  template <class Tuples>
  void enter(const Tuples& tuples, int64_t s, int level) {
    if (layout.count() == 0) return;
    const int levels = layout.count(), first = layout.chain_begin[static_cast<size_t>(level)];
    for (int l = first; l < levels; ++l) {
      const Step step{position[l], position[l + 1], l == first && s > 0, tuples.coordinate(s, l)};
      position[l + 1] = enter_level(layout.at(l), &writers[l], step, [&] { return tuples.coordinate(s - 1, l); });
    }
  }

  // Enters the tuples [begin, end), which differ from the one before them in the last chain only. If the chain stores
  // coordinates, each tuple takes one position. Otherwise positions differ by as much as coordinates, so it is enough
  // to enter the last tuple.
  template <class Tuples>
  void follow(const Tuples& tuples, int64_t begin, int64_t end) {
    if (begin == end) return;
    const int levels = layout.count(), last = levels - 1, chain = layout.chain_begin[static_cast<size_t>(last)];
    if (!layout.at(last).traits().coordinates) {
      const Step step{position[last], position[levels], true, tuples.coordinate(end - 1, last)};
      position[levels] =
          enter_level(layout.at(last), &writers[last], step, [&] { return tuples.coordinate(begin - 1, last); });
      return;
    }
    int64_t& next = writers[chain].next;
    for (int l = chain; l < levels; ++l) {
      const auto coordinate = tuples.coordinates(l);
      writers[l].write_coordinates(next, end - begin, [=](int64_t k) { return coordinate(begin + k); });
    }
    next += end - begin;
    position[levels] = next - 1;
  }

  // Returns the position of tuple t less that of tuple s <= t, if the two differ in the last chain only.
  template <class Tuples>
  int64_t distance(const Tuples& tuples, int64_t s, int64_t t) const {
    const int last = layout.count() - 1;
    if (last < 0 || layout.at(last).traits().coordinates) return t - s;
    return tuples.coordinate(t, last) - tuples.coordinate(s, last);
  }
};

}  // namespace jsparse
