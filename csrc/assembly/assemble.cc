// An assembly makes two passes over the tuples. The first pass counts the positions that each unit adds to each chain
// of levels. From these counts every unit knows its offsets in all arrays, and the second pass fills the arrays, all
// units at once.
//
// Positions are counted as if the capacity of the arrays were unlimited. They grow with the number s of a tuple, so the
// positions that exceed the capacity of a level are its last ones, and their children are the last ones of the levels
// below.
#include "assembly/assemble.h"

#include <algorithm>
#include <utility>

#include "assembly/walk.h"
#include "levels/levels.h"

namespace jsparse {
namespace {

// Writes how many positions the tuples of a unit add to each chain of levels (at the index of its first level), and at
// last how many distinct tuples there are.
template <class Tuples>
void count_unit(const Layout& layout, const Tuples& tuples, int64_t begin, int64_t end, int64_t* counts) {
  const int levels = layout.count();
  int64_t differing[kMaxLevels + 1] = {0};  // number of tuples that differ from the one before at this level first
  int64_t more[kMaxLevels + 1] = {0};       // positions that they add to this level beyond one each
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
  // A tuple adds a position to a chain if it differs from the one before in the chain or in a level above.
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
  each(ctx, static_cast<int64_t>(units), [&](int64_t unit) noexcept {
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

// Writes the optional arrays of an assembly, which list its tuples.
template <class Slot, class Tuples>
struct Listing {
  const Assembly& out;
  const Tuples& tuples;
  const bool wanted = out.order || out.slots || out.first || out.group_slots || out.starts.data;

  void write(void* array, int64_t i, int64_t value) const { static_cast<Slot*>(array)[i] = static_cast<Slot>(value); }

  // Lists the inputs of tuples [begin, end). `slot(s)` is the slot of tuple s.
  template <class SlotOf>
  void list_inputs(int64_t begin, int64_t end, const SlotOf& slot) const {
    for (int64_t s = begin; s < end && out.order != nullptr; ++s) write(out.order, s, tuples.input(s));
    for (int64_t s = begin; s < end && out.slots != nullptr; ++s) {
      const int64_t q = slot(s);
      write(out.slots, tuples.input(s), q < out.slot_count ? q : -1);
    }
  }

  // Lists the tuples [begin, end), which are distinct. `group` distinct tuples come before them.
  template <class SlotOf>
  void list_distinct(int64_t begin, int64_t end, int64_t group, const SlotOf& slot, FilledArray<Slot>* starts) const {
    const int64_t shift = group - begin;
    for (int64_t s = begin; s < end && out.first != nullptr; ++s) write(out.first, s + shift, tuples.input(s));
    for (int64_t s = begin; s < end && out.group_slots != nullptr; ++s) write(out.group_slots, s + shift, slot(s));
    for (int64_t s = begin; s < end && starts->data != nullptr; ++s) {
      const int64_t q = slot(s);
      starts->fill(q < out.slot_count ? q : starts->length - 1, s);
    }
    list_inputs(begin, end, slot);
  }

  // Lists a tuple that repeats the one before. There are `groups` distinct tuples so far.
  void list_repeated(int64_t s, int64_t slot, int64_t groups) const {
    if (out.extra != nullptr) write(out.extra, s - groups, tuples.input(s)), write(out.extra_group, s - groups, groups - 1);
    list_inputs(s, s + 1, [=](int64_t) { return slot; });
  }
};

// Enters the tuples of a unit run by run. A run is a tuple together with the ones after it that are distinct and have
// the same parent in the last chain of levels. It is short enough for the first-level cache.
template <class Index, class Slot, class Tuples>
void write_unit(const Layout& layout, const std::vector<LevelArrays>& arrays, const Ordered& ordered,
                const Tuples& tuples, const Counts& counts, size_t u, const Assembly& out) noexcept {
  constexpr int64_t kRun = 1024;
  const int levels = layout.count(), chain = levels > 0 ? layout.chain_begin[static_cast<size_t>(levels - 1)] : 0;
  const Listing<Slot, Tuples> listing{out, tuples};
  Walk<Index, Slot> walk(layout, arrays, out);
  int64_t s = ordered.units[u];
  const int64_t end = ordered.units[u + 1];
  if (s == end) return;
  if (s > 0) {
    walk.resume(tuples, s, counts.before(u));
    walk.starts.next = walk.first_start(out);
  }
  int next = s == 0 ? 0 : tuples.differ(s);
  while (s < end) {
    const int level = next;
    if (s > 0 && level == levels) {
      listing.list_repeated(s, walk.position[levels], walk.groups);
      if (++s < end) next = tuples.differ(s);
      continue;
    }
    int64_t stop = s + 1;
    while (stop < end && (next = tuples.differ(stop)) >= chain && next < levels && stop - s < kRun) ++stop;
    int64_t from = s;
    if (s == 0 || level < chain) walk.enter(tuples, from++, level);
    const int64_t before = walk.position[levels];  // of tuple from - 1
    walk.follow(tuples, from, stop);
    if (listing.wanted) {
      const auto slot = [&](int64_t t) { return add_positions(before, walk.distance(tuples, from - 1, t)); };
      listing.list_distinct(s, stop, walk.groups, slot, &walk.starts);
    }
    walk.groups += stop - s;
    s = stop;
  }
}

// Writes the elements that no tuple writes: the pointers after the last parent, the starts after the last slot, and the
// padding.
template <class Index, class Slot, class Tuples>
void finish(const Layout& layout, const std::vector<LevelArrays>& arrays, const Ordered& ordered, const Tuples& tuples,
            const Counts& counts, const Assembly& out) {
  Walk<Index, Slot> walk(layout, arrays, out);
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

// Writes -1 as the slot of each input that was left out, and puts these inputs at the end of `order`. Their slots are
// still -2; the slots of all other inputs are at least -1.
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
  const std::vector<LevelArrays> arrays = layout.by_level(out.arrays);
  each(ctx, static_cast<int64_t>(ordered.units.size()) - 1, [&](int64_t u) noexcept {
    write_unit<Index, Slot>(layout, arrays, ordered, tuples, counts, static_cast<size_t>(u), out);
  });
  finish<Index, Slot>(layout, arrays, ordered, tuples, counts, out);
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
