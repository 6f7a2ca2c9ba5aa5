// Two passes over the tuples. The first counts the positions that each unit adds to each chain of levels; then every
// unit knows where it writes in every array, and the second pass fills the arrays, all units at once.
//
// Positions are counted as if there were room for all. They grow with s, and a position never is less than its parent's
// rank among the stored ones, so what does not fit a level comes last in it, and so do its children in theirs.
#include "assembly/assemble.h"

#include <algorithm>
#include <utility>

#include "levels/levels.h"

namespace jsparse {
namespace {

// Adds the positions that the tuples of a unit take in each chain of levels, at its first level; last, their number.
template <class Tuples>
void count_unit(const Layout& layout, const Tuples& tuples, int64_t begin, int64_t end, int64_t* counts) {
  const int levels = layout.count();
  int64_t differing[kMaxLevels + 1] = {0};  // tuples by the first level at which they differ
  int64_t more[kMaxLevels + 1] = {0};       // positions beyond one that they add to that level
  const auto has_runs = [](const LevelOf& level) { return level.traits().starts; };
  int64_t s = begin;
  if (s == 0 && s < end) ++differing[0], ++s;
  if (std::none_of(layout.levels.begin(), layout.levels.end(), has_runs)) {
    for (; s < end; ++s) ++differing[tuples.differ(s)];
  } else {
    for (; s < end; ++s) {
      const int l = tuples.differ(s);
      ++differing[l];
      if (l == levels) continue;
      const int64_t added = positions_added(layout.at(l), tuples.coordinate(s - 1, l), tuples.coordinate(s, l));
      more[l] = add_positions(more[l], added - 1);
    }
  }
  // A chain gets a position where the tuple differs in the chain or before.
  int64_t sum = 0;
  for (int l = 0; l < levels; ++l) {
    sum += differing[l];
    counts[layout.chain_begin[static_cast<size_t>(l)]] = add_positions(sum, more[l]);
  }
  counts[levels] = sum;
}

template <class Tuples>
Counts count_with(Context* ctx, const Layout& layout, const Ordered& ordered, const Tuples& tuples) {
  Counts out;
  out.stride = layout.count() + 1;
  const size_t units = ordered.units.size() - 1;
  const auto of_unit = [&](size_t u) { return out.units.data() + u * static_cast<size_t>(out.stride); };
  out.units.assign(units * static_cast<size_t>(out.stride), 0);
  each(ctx, static_cast<int64_t>(units), [&](int64_t unit) {
    const auto u = static_cast<size_t>(unit);
    count_unit(layout, tuples, ordered.units[u], ordered.units[u + 1], of_unit(u));
  });
  out.total.assign(static_cast<size_t>(out.stride), 0);
  for (size_t u = 0; u < units; ++u) {
    for (size_t l = 0; l < static_cast<size_t>(out.stride); ++l) {
      const int64_t count = std::exchange(of_unit(u)[l], out.total[l]);
      out.total[l] = add_positions(out.total[l], count);
    }
  }
  return out;
}

// Where the walk over the tuples stands in the levels.
template <class Index, class Slot>
struct Walk {
  const Layout& layout;
  int64_t position[kMaxLevels + 1];  // of the last tuple after each level, shifted by one: [0] is the root's
  LevelWriter<Index> writers[kMaxLevels];
  FilledArray<Slot> starts;
  int64_t groups = 0;

  Walk(const Layout& layout, const Assembly& out) : layout(layout), starts(out.starts) {
    const std::vector<LevelArrays> arrays = layout.by_level(out.arrays);
    for (size_t l = 0; l < arrays.size(); ++l) writers[l] = LevelWriter<Index>(arrays[l]);
    position[0] = 0;
  }

  // Takes up the walk behind tuple s - 1, where the levels have the positions counted in `before`.
  template <class Tuples>
  void resume(const Tuples& tuples, int64_t s, const int64_t* before) {
    for (int l = 0; l < layout.count(); ++l) {
      const int64_t coordinate = tuples.coordinate(s - 1, l);
      position[l + 1] = resume_level(layout.at(l), &writers[l], position[l], coordinate, before[l]);
    }
    groups = before[layout.count()];
  }

  // The first start that the tuples so far have not set.
  int64_t first_start(const Assembly& out) const {
    const int64_t slot = position[layout.count()];
    return slot >= out.slot_count ? starts.length : slot + 1;
  }

  // Enters tuple s, which differs from the one before at `level` first, into the levels from its chain on.
  template <class Tuples>
  void enter(const Tuples& tuples, int64_t s, int level) {
    const int levels = layout.count(), first = layout.chain_begin[static_cast<size_t>(level)];
    for (int l = first; l < levels; ++l) {
      const Step step{position[l], position[l + 1], l == first && s > 0, tuples.coordinate(s, l)};
      position[l + 1] = enter_level(layout.at(l), &writers[l], step, [&] { return tuples.coordinate(s - 1, l); });
    }
  }
};

template <class Index, class Slot, class Tuples>
void write_unit(const Layout& layout, const Ordered& ordered, const Tuples& tuples, const Counts& counts, size_t u,
                const Assembly& out) {
  const int levels = layout.count();
  Walk<Index, Slot> walk(layout, out);
  int64_t s = ordered.units[u];
  const int64_t end = ordered.units[u + 1];
  if (s == end) return;
  if (s > 0) {
    walk.resume(tuples, s, counts.before(u));
    walk.starts.next = walk.first_start(out);
  }
  auto* const order = static_cast<Slot*>(out.order);
  auto* const slots = static_cast<Slot*>(out.slots);
  auto* const first = static_cast<Slot*>(out.first);
  auto* const group_slots = static_cast<Slot*>(out.group_slots);
  auto* const extra = static_cast<Slot*>(out.extra);
  auto* const extra_group = static_cast<Slot*>(out.extra_group);
  // Most tuples only differ in the last chain. If it has pointers and coordinates, they add coordinates and no more.
  const int chain = levels > 0 ? layout.chain_begin[static_cast<size_t>(levels - 1)] : 0;
  const bool plain = levels > 0 && layout.at(chain).traits().pointers && layout.at(chain).traits().coordinates;
  for (; s < end; ++s) {
    const int level = s == 0 ? 0 : tuples.differ(s);
    const int64_t input = tuples.input(s);
    if (level < levels || s == 0) {
      if (plain && level >= chain && s > 0) {
        const int64_t position = walk.position[levels] = walk.writers[chain].next++;
        for (int l = chain; l < levels; ++l) walk.writers[l].write_coordinate(position, tuples.coordinate(s, l));
      } else if (levels > 0) {
        walk.enter(tuples, s, level);
      }
      const int64_t slot = walk.position[levels];
      if (first != nullptr) first[walk.groups] = static_cast<Slot>(input);
      if (group_slots != nullptr) group_slots[walk.groups] = static_cast<Slot>(slot);
      if (walk.starts.data != nullptr) walk.starts.fill(slot < out.slot_count ? slot : walk.starts.length - 1, s);
      ++walk.groups;
    } else if (extra != nullptr) {
      extra[s - walk.groups] = static_cast<Slot>(input);
      extra_group[s - walk.groups] = static_cast<Slot>(walk.groups - 1);
    }
    const int64_t slot = walk.position[levels];
    if (order != nullptr) order[s] = static_cast<Slot>(input);
    if (slots != nullptr) slots[input] = slot < out.slot_count ? static_cast<Slot>(slot) : Slot{-1};
  }
}

// Completes what no tuple reaches: the pointers behind the last parent, the starts behind the last slot, the padding.
template <class Index, class Slot, class Tuples>
void finish(const Layout& layout, const Ordered& ordered, const Tuples& tuples, const Counts& counts, const Assembly& out) {
  Walk<Index, Slot> walk(layout, out);
  if (ordered.count > 0) {
    walk.resume(tuples, ordered.count, counts.total.data());
    walk.starts.next = walk.first_start(out);
  }
  for (int l = 0; l < layout.count(); ++l) {
    const int chain = layout.chain_begin[static_cast<size_t>(l)];
    finish_level(layout.at(l), &walk.writers[l], counts.total[static_cast<size_t>(chain)]);
  }
  if (walk.starts.data != nullptr) walk.starts.fill(walk.starts.length - 1, ordered.count);
}

// The inputs that were left out come last in `order`, and have no slot. The others' slots are -1 or more by now.
template <class Slot>
void order_the_rest(const Ordered& ordered, const Assembly& out) {
  auto* const slots = static_cast<Slot*>(out.slots);
  if (slots == nullptr || ordered.count == ordered.inputs) return;
  auto* const order = static_cast<Slot*>(out.order);
  int64_t s = ordered.count;
  for (int64_t i = 0; i < ordered.inputs; ++i) {
    if (slots[i] != -2) continue;
    slots[i] = -1;
    if (order != nullptr) order[s++] = static_cast<Slot>(i);
  }
}

template <class Index, class Slot, class Tuples>
void write_with(Context* ctx, const Layout& layout, const Ordered& ordered, const Tuples& tuples, const Counts& counts,
                const Assembly& out) {
  if (out.slots != nullptr && ordered.count < ordered.inputs) {
    auto* const slots = static_cast<Slot*>(out.slots);
    for (int64_t i = 0; i < ordered.inputs; ++i) slots[i] = -2;
  }
  each(ctx, static_cast<int64_t>(ordered.units.size()) - 1, [&](int64_t u) {
    write_unit<Index, Slot>(layout, ordered, tuples, counts, static_cast<size_t>(u), out);
  });
  finish<Index, Slot>(layout, ordered, tuples, counts, out);
  order_the_rest<Slot>(ordered, out);
}

template <class Tuples>
void write_typed(Context* ctx, const Layout& layout, const Ordered& ordered, const Counts& counts, const Assembly& out) {
  const Tuples tuples(ordered);
  if (out.wide && out.wide_slots) write_with<int64_t, int64_t>(ctx, layout, ordered, tuples, counts, out);
  else if (out.wide) write_with<int64_t, int32_t>(ctx, layout, ordered, tuples, counts, out);
  else if (out.wide_slots) write_with<int32_t, int64_t>(ctx, layout, ordered, tuples, counts, out);
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
