// Two passes over the tuples. The first counts the positions that each unit adds to each chain of levels; then every unit
// knows its place in every array and the second pass fills them, all units at once.
//
// Positions are counted as if there were room for all. They grow with s, and a position never is less than its parent's
// rank among the stored ones, so what does not fit a level comes last in it, and so do its children in theirs.
#include "assembly/assemble.h"

#include <cstring>
#include <limits>
#include <type_traits>

namespace jsparse {
namespace {

template <class T>
T narrowed(int64_t x) {
  return static_cast<T>(std::min<int64_t>(x, std::numeric_limits<T>::max()));
}

// Entries of an array that rises step by step: all up to a place get the value there, none twice, none beyond the end.
template <class T>
struct Gaps {
  T* data = nullptr;
  int64_t length = 0;
  int64_t next = 0;

  void to(int64_t at, int64_t value) {
    const int64_t end = std::min(at + 1, length);
    for (; next < end; ++next) data[next] = narrowed<T>(value);
    next = std::max(next, at + 1);
  }
};

template <class Tuples>
Counts count_with(Context* ctx, const Layout& layout, const Ordered& ordered, const Tuples& tuples) {
  const int levels = layout.count();
  Counts out;
  out.stride = levels + 1;
  const size_t units = ordered.units.size() - 1;
  out.units.assign(units * static_cast<size_t>(out.stride), 0);
  each(ctx, static_cast<int64_t>(units), [&](int64_t u) {
    int64_t differing[kMaxLevels + 1] = {0};  // tuples by the first level at which they differ
    int64_t s = ordered.units[static_cast<size_t>(u)];
    const int64_t end = ordered.units[static_cast<size_t>(u) + 1];
    if (s == 0 && s < end) ++differing[0], ++s;
    for (; s < end; ++s) ++differing[tuples.differ(s)];
    // A chain gets a position where the tuple differs in the chain or before.
    int64_t* mine = out.units.data() + static_cast<size_t>(u) * static_cast<size_t>(out.stride);
    int64_t sum = 0;
    for (int l = 0; l < levels; ++l) {
      sum += differing[l];
      mine[layout.chain_begin[static_cast<size_t>(l)]] = sum;
    }
    mine[levels] = sum;
  });
  out.total.assign(static_cast<size_t>(out.stride), 0);
  for (size_t u = 0; u < units; ++u) {
    for (int l = 0; l < out.stride; ++l) {
      int64_t& count = out.units[u * static_cast<size_t>(out.stride) + static_cast<size_t>(l)];
      const int64_t before = out.total[static_cast<size_t>(l)];
      out.total[static_cast<size_t>(l)] += count;
      count = before;
    }
  }
  return out;
}

// Where the walk over the tuples stands in the levels.
template <class Index, class Place>
struct Walk {
  const Layout& layout;
  int64_t position[kMaxLevels + 1];  // of the last tuple after each level, shifted by one: [0] is the root's
  int64_t next[kMaxLevels];          // free position, per chain at its first level
  Gaps<Index> pointers[kMaxLevels];  // at compressed levels
  Index* coordinates[kMaxLevels];
  int64_t capacity[kMaxLevels];  // of the coordinates
  Gaps<Place> starts;
  int64_t groups = 0;

  Walk(const Layout& layout, const Assembly& out) : layout(layout) {
    size_t a = 0;
    for (int l = 0; l < layout.count(); ++l) {
      next[l] = 0;
      if (layout.at(l).kind == kDense) continue;
      if (layout.at(l).kind == kCompressed) {
        pointers[l].data = static_cast<Index*>(out.arrays[a].data);
        pointers[l].length = out.arrays[a++].length;
      }
      coordinates[l] = static_cast<Index*>(out.arrays[a].data);
      capacity[l] = out.arrays[a++].length;
    }
    starts.data = static_cast<Place*>(out.starts.data);
    starts.length = out.starts.length;
    position[0] = 0;
  }

  // Clamped, so that what has no place stays without one and nothing overflows: sizes and lengths are of real arrays.
  int64_t dense(int64_t parent, int64_t size, int64_t coordinate) const {
    int64_t p;
    if (__builtin_mul_overflow(parent, size, &p) || __builtin_add_overflow(p, coordinate, &p)) return int64_t{1} << 62;
    return std::min(p, int64_t{1} << 62);
  }

  // Takes up the walk behind tuple s - 1, which has the positions just before those counted in `before`.
  template <class Tuples>
  void resume(const Tuples& tuples, int64_t s, const int64_t* before) {
    for (int l = 0; l < layout.count();) {
      const int end = layout.chain_end[static_cast<size_t>(l)];
      if (layout.at(l).kind == kDense) {
        position[l + 1] = dense(position[l], layout.at(l).size, tuples.coordinate(s - 1, l));
      } else {
        next[l] = before[l];
        pointers[l].next = position[l] + 1;
        for (int m = l; m < end; ++m) position[m + 1] = next[l] - 1;
      }
      l = end;
    }
    groups = before[layout.count()];
  }

  // The first start that the tuples so far have not set.
  int64_t first_start(const Assembly& out) const {
    const int64_t slot = position[layout.count()];
    return slot >= out.slot_count ? starts.length : slot + 1;
  }

  template <class Tuples>
  void enter(const Tuples& tuples, int64_t s, int level) {
    const int levels = layout.count();
    for (int l = layout.chain_begin[static_cast<size_t>(level)]; l < levels;) {
      if (layout.at(l).kind == kDense) {
        position[l + 1] = dense(position[l], layout.at(l).size, tuples.coordinate(s, l));
        ++l;
        continue;
      }
      const int64_t at = next[l]++;
      pointers[l].to(position[l], at);
      const int end = layout.chain_end[static_cast<size_t>(l)];
      for (; l < end; ++l) {
        if (at < capacity[l]) coordinates[l][at] = static_cast<Index>(tuples.coordinate(s, l));
        position[l + 1] = at;
      }
    }
  }
};

template <class Index, class Place, class Tuples>
void write_unit(const Layout& layout, const Ordered& ordered, const Tuples& tuples, const Counts& counts, size_t u,
                const Assembly& out) {
  const int levels = layout.count();
  Walk<Index, Place> walk(layout, out);
  int64_t s = ordered.units[u];
  const int64_t end = ordered.units[u + 1];
  if (s == end) return;
  if (s > 0) {
    walk.resume(tuples, s, counts.before(u));
    walk.starts.next = walk.first_start(out);
  }
  auto* const order = static_cast<Place*>(out.order);
  auto* const slots = static_cast<Place*>(out.slots);
  auto* const first = static_cast<Place*>(out.first);
  auto* const group_slots = static_cast<Place*>(out.group_slots);
  auto* const extra = static_cast<Place*>(out.extra);
  auto* const extra_group = static_cast<Place*>(out.extra_group);
  // Most tuples only differ in the last level. Where that is compressed, they add a coordinate and nothing else.
  const int last = levels - 1;
  const bool plain = levels > 0 && layout.at(last).kind == kCompressed;
  for (; s < end; ++s) {
    const int level = s == 0 ? 0 : tuples.differ(s);
    const int64_t input = tuples.input(s);
    if (level < levels || s == 0) {
      if (plain && level == last && s > 0) {
        const int64_t at = walk.next[last]++;
        if (at < walk.capacity[last]) walk.coordinates[last][at] = static_cast<Index>(tuples.coordinate(s, last));
        walk.position[levels] = at;
      } else if (levels > 0) {
        walk.enter(tuples, s, level);
      }
      const int64_t slot = walk.position[levels];
      if (first != nullptr) first[walk.groups] = static_cast<Place>(input);
      if (group_slots != nullptr) group_slots[walk.groups] = static_cast<Place>(slot);
      if (walk.starts.data != nullptr) walk.starts.to(slot < out.slot_count ? slot : walk.starts.length - 1, s);
      ++walk.groups;
    } else if (extra != nullptr) {
      extra[s - walk.groups] = static_cast<Place>(input);
      extra_group[s - walk.groups] = static_cast<Place>(walk.groups - 1);
    }
    const int64_t slot = walk.position[levels];
    if (order != nullptr) order[s] = static_cast<Place>(input);
    if (slots != nullptr) slots[input] = slot < out.slot_count ? static_cast<Place>(slot) : Place{-1};
  }
}

// Completes what no tuple reaches: the pointers behind the last parent, the starts behind the last slot, the padding.
template <class Index, class Place, class Tuples>
void finish(const Layout& layout, const Ordered& ordered, const Tuples& tuples, const Counts& counts, const Assembly& out) {
  const int levels = layout.count();
  Walk<Index, Place> walk(layout, out);
  if (ordered.count > 0) {
    walk.resume(tuples, ordered.count, counts.total.data());
    walk.starts.next = walk.first_start(out);
  }
  for (int l = 0; l < levels; ++l) {
    if (layout.at(l).kind == kDense) continue;
    const int64_t total = counts.total[static_cast<size_t>(layout.chain_begin[static_cast<size_t>(l)])];
    if (layout.at(l).kind == kCompressed && walk.pointers[l].length > 0) {
      walk.pointers[l].to(walk.pointers[l].length - 1, total);
      walk.pointers[l].data[walk.pointers[l].length - 1] = narrowed<Index>(total);  // the true count, if too many
    }
    for (int64_t p = total; p < walk.capacity[l]; ++p) walk.coordinates[l][p] = 0;
  }
  if (walk.starts.data != nullptr) walk.starts.to(walk.starts.length - 1, ordered.count);
}

// The inputs that were left out come last in `order`, and have no slot. The others' slots are -1 or more by now.
template <class Place>
void place_the_rest(const Ordered& ordered, const Assembly& out) {
  auto* const slots = static_cast<Place*>(out.slots);
  if (slots == nullptr || ordered.count == ordered.inputs) return;
  auto* const order = static_cast<Place*>(out.order);
  int64_t s = ordered.count;
  for (int64_t i = 0; i < ordered.inputs; ++i) {
    if (slots[i] != -2) continue;
    slots[i] = -1;
    if (order != nullptr) order[s++] = static_cast<Place>(i);
  }
}

template <class Index, class Place, class Tuples>
void write_with(Context* ctx, const Layout& layout, const Ordered& ordered, const Tuples& tuples, const Counts& counts,
                const Assembly& out) {
  if (out.slots != nullptr && ordered.count < ordered.inputs) {
    auto* const slots = static_cast<Place*>(out.slots);
    for (int64_t i = 0; i < ordered.inputs; ++i) slots[i] = -2;
  }
  each(ctx, static_cast<int64_t>(ordered.units.size()) - 1, [&](int64_t u) {
    write_unit<Index, Place>(layout, ordered, tuples, counts, static_cast<size_t>(u), out);
  });
  finish<Index, Place>(layout, ordered, tuples, counts, out);
  place_the_rest<Place>(ordered, out);
}

template <class Tuples>
void write_typed(Context* ctx, const Layout& layout, const Ordered& ordered, const Counts& counts, const Assembly& out) {
  const Tuples tuples(ordered);
  if (out.wide && out.wide_places) write_with<int64_t, int64_t>(ctx, layout, ordered, tuples, counts, out);
  else if (out.wide) write_with<int64_t, int32_t>(ctx, layout, ordered, tuples, counts, out);
  else if (out.wide_places) write_with<int32_t, int64_t>(ctx, layout, ordered, tuples, counts, out);
  else write_with<int32_t, int32_t>(ctx, layout, ordered, tuples, counts, out);
}

}  // namespace

Counts count_positions(Context* ctx, const Layout& layout, const Ordered& tuples) {
  return tuples.packed ? count_with(ctx, layout, tuples, PackedTuples(tuples))
                       : count_with(ctx, layout, tuples, GatheredTuples(tuples));
}

void write_assembly(Context* ctx, const Layout& layout, const Ordered& tuples, const Counts& counts, Assembly* out) {
  if (tuples.packed) write_typed<PackedTuples>(ctx, layout, tuples, counts, *out);
  else write_typed<GatheredTuples>(ctx, layout, tuples, counts, *out);
}

}  // namespace jsparse
