#include "levels/select.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "arrays/mask.h"
#include "levels/progression.h"

namespace jsparse {
namespace {

// The arrays and the progressions of the levels of a chain, and the results.
template <class Index>
struct Columns {
  std::vector<SliceTest<Index>> tests;
  std::vector<const Index*> from;
  std::vector<Index*> to;
  Index* positions;
  int64_t count = 0;  // how many entries are written
};

// Writes the entries of one segment after the other.
template <class Index>
class SegmentWriter {
 public:
  explicit SegmentWriter(Columns<Index>* columns) : out_(*columns) {}

  // Writes the selected ones of the entries of a part, which agree in the levels above, and lie between the bounds of
  // this level if they are many. Returns false if it finds other entries.
  bool write(size_t level, Span part) {
    const SliceTest<Index>* const tests = out_.tests.data() + level;
    const size_t levels = out_.tests.size() - level;
    if (levels == 1 && tests[0].is_range() && part.size() > kShortSpan) return write_all(level, part);
    if (levels > 2 || (levels == 2 && tests[0].backward() != tests[1].backward())) return write_runs(level, part);
    if (levels == 1) write_selected<1>(level, part);
    else write_selected<2>(level, part);
    return true;
  }

 private:
  // Writes a part of the last level, which lies between the bounds of a range.
  bool write_all(size_t level, Span part) {
    const SliceTest<Index> test = out_.tests[level];
    const Index* const __restrict from = out_.from[level];
    Index *const __restrict to = out_.to[level] + out_.count, *const __restrict position = out_.positions + out_.count;
    const int64_t n = part.size(), first = test.backward() ? part.end - 1 : part.begin;
    bool outside = false;
    const auto fill = [&](auto step) {  // a constant, so that the loop runs on vectors
      for (int64_t i = 0; i < n; ++i) {
        const Index c = from[first + step() * i];
        outside |= test.distance(c) > test.reach();
        to[i] = static_cast<Index>(step() < 0 ? test.reach() - test.distance(c) : test.distance(c));
        position[i] = static_cast<Index>(first + step() * i);
      }
    };
    if (test.backward()) fill(std::integral_constant<int64_t, -1>{});
    else fill(std::integral_constant<int64_t, 1>{});
    out_.count += n;
    return !outside;
  }

  // Writes the selected entries of a part in the last levels, of which none or all are backward. Each entry is written
  // where the next selected one belongs: a branch on what is selected would often be predicted wrongly.
  template <size_t kLevels>
  void write_selected(size_t level, Span part) {
    std::array<SliceTest<Index>, kLevels> tests;  // copies, so that the compiler knows that they do not change
    std::array<const Index*, kLevels> from;
    std::array<Index*, kLevels> to;
    std::copy_n(out_.tests.data() + level, kLevels, tests.data());
    std::copy_n(out_.from.data() + level, kLevels, from.data());
    std::copy_n(out_.to.data() + level, kLevels, to.data());
    Index* const position = out_.positions;
    const int64_t n = part.size(), step = tests[0].backward() ? -1 : 1;
    int64_t p = tests[0].backward() ? part.end - 1 : part.begin, count = out_.count;
    for (int64_t i = 0; i < n; ++i, p += step) {
      bool selected = true;
      for (size_t l = 0; l < kLevels; ++l) {
        selected &= tests[l].selects(from[l][p]);
        to[l][count] = tests[l].renumbered(from[l][p]);
      }
      position[count] = static_cast<Index>(p);
      count += selected;
    }
    out_.count = count;
  }

  // Writes the entries of a level above a singleton: runs of equal coordinates, each in the order of the level below.
  bool write_runs(size_t level, Span part) {
    const Index* const from = out_.from[level];
    bool ok = true;
    if (out_.tests[level].backward()) {
      for (int64_t end = part.end, begin; end > part.begin; end = begin) {
        for (begin = end - 1; begin > part.begin && from[begin - 1] == from[end - 1]; --begin) {}
        ok &= write_run(level, {begin, end});
      }
    } else {
      for (int64_t begin = part.begin, end; begin < part.end; begin = end) {
        for (end = begin + 1; end < part.end && from[end] == from[begin]; ++end) {}
        ok &= write_run(level, {begin, end});
      }
    }
    return ok;
  }

  bool write_run(size_t level, Span run) {
    const Index c = out_.from[level][run.begin];
    if (!out_.tests[level].selects(c)) return true;
    const int64_t first = out_.count;
    const bool ok = write(level + 1, out_.tests[level + 1].narrowed(out_.from[level + 1], run));
    std::fill(out_.to[level] + first, out_.to[level] + out_.count, out_.tests[level].renumbered(c));
    return ok;
  }

  Columns<Index>& out_;
};

// Writes the entries of neighbouring segments in the order in which they are stored, whatever segment they belong to.
// The entries are taken by groups of 64, and each group has a mask of the selected ones, by which the pointers are found.
template <class Index>
class NeighbourWriter {
 public:
  NeighbourWriter(Columns<Index>* columns, Span part)
      : out_(*columns), part_(part), masks_(groups() + 1), before_(groups() + 1) {}

  void write() {
    for (int64_t g = 0; g < groups(); ++g) {
      const Span group{part_.begin + g * kMaskBits, std::min(part_.begin + (g + 1) * kMaskBits, part_.end)};
      masks_[g] = mask(group);
      before_[g] = static_cast<Index>(out_.count);
      if (masks_[g] != 0) write_group(group, masks_[g]);
    }
    masks_[groups()] = 0;
    before_[groups()] = static_cast<Index>(out_.count);
  }

  // Returns how many entries were written of those before a position, which lies in the part.
  Index written_before(int64_t position) const {
    const int64_t at = std::min(std::max<int64_t>(position - part_.begin, 0), part_.size());
    const uint64_t earlier = masks_[at / kMaskBits] & ((uint64_t{1} << at % kMaskBits) - 1);
    return static_cast<Index>(before_[at / kMaskBits] + __builtin_popcountll(earlier));
  }

 private:
  int64_t groups() const { return (part_.size() + kMaskBits - 1) / kMaskBits; }

  // Returns a bit for each entry of a group that says whether it is selected.
  uint64_t mask(Span group) const {
    uint8_t flags[kMaskBits] = {0};
    std::fill_n(flags, group.size(), uint8_t{1});
    for (size_t l = 0; l < out_.tests.size(); ++l) {
      const SliceTest<Index> test = out_.tests[l];
      const Index* const from = out_.from[l] + group.begin;
      const int64_t n = group.size();
      if (test.is_range()) {
        for (int64_t i = 0; i < n; ++i) flags[i] &= test.within(from[i]);
      } else {
        for (int64_t i = 0; i < n; ++i) flags[i] &= test.selects(from[i]);
      }
    }
    return mask_of(flags);
  }

  void write_group(Span group, uint64_t mask) {
    Index* const position = out_.positions + out_.count;
    int64_t n = 0;
    if (mask == ~uint64_t{0}) {
      for (; n < kMaskBits; ++n) position[n] = static_cast<Index>(group.begin + n);
    } else {
      for (; mask != 0; mask &= mask - 1) position[n++] = static_cast<Index>(group.begin + __builtin_ctzll(mask));
    }
    for (size_t l = 0; l < out_.tests.size(); ++l) {
      const SliceTest<Index> test = out_.tests[l];
      const Index* const from = out_.from[l];
      Index* const to = out_.to[l] + out_.count;
      for (int64_t i = 0; i < n; ++i) to[i] = test.renumbered(from[position[i]]);
    }
    out_.count += n;
  }

  Columns<Index>& out_;
  const Span part_;
  Scratch<uint64_t> masks_;
  Scratch<Index> before_;  // how many entries were written before each group
};

}  // namespace

template <class Index>
Selecting<Index>::Selecting(Segments<Index> segments, const std::vector<Progression>& wanted)
    : in_(std::move(segments)), tests_(wanted.begin(), wanted.end()) {
  const auto backward = [](const SliceTest<Index>& test) { return test.backward(); };
  as_stored_ = in_.parents == nullptr && std::none_of(tests_.begin(), tests_.end(), backward);
}

template <class Index>
SelectFault Selecting<Index>::narrow() {
  begins_ = Scratch<Index>(in_.parent_count);
  ends_ = Scratch<Index>(in_.parent_count);
  const bool narrowing = !as_stored_ || in_.parent_count == 1;
  for (int64_t q = 0; q < in_.parent_count; ++q) {
    const int64_t parent = in_.parents == nullptr ? q : in_.parents[q];
    if (parent < 0 || parent >= in_.above) return SelectFault::kParents;
    Span part{in_.pointers[parent], in_.pointers[parent + 1]};
    if (part.begin < 0 || part.begin > part.end || part.end > in_.positions) return SelectFault::kPointers;
    if (narrowing) part = tests_[0].narrowed(in_.coordinates[0], part);
    begins_[q] = static_cast<Index>(part.begin);
    ends_[q] = static_cast<Index>(part.end);
    most_ += part.size();
    if (most_ > std::numeric_limits<Index>::max()) return SelectFault::kTooMany;
  }
  return SelectFault::kNone;
}

template <class Index>
SelectFault Selecting<Index>::write(Index* pointers, const std::vector<Index*>& coordinates, Index* positions,
                                    int64_t* count) const {
  Columns<Index> out{tests_, in_.coordinates, coordinates, positions};
  bool ok = true;
  pointers[0] = 0;
  if (as_stored_ && in_.parent_count > 0) {
    NeighbourWriter<Index> writer(&out, {begins_[0], std::min(begins_[0] + most_, in_.positions)});
    writer.write();
    for (int64_t q = 0; q < in_.parent_count; ++q) pointers[q + 1] = writer.written_before(ends_[q]);
  } else {
    SegmentWriter<Index> writer(&out);
    for (int64_t q = 0; q < in_.parent_count; ++q) {
      ok &= writer.write(0, {begins_[q], ends_[q]});
      pointers[q + 1] = static_cast<Index>(out.count);
    }
  }
  *count = out.count;
  return ok ? SelectFault::kNone : SelectFault::kCoordinates;
}

template class Selecting<int32_t>;
template class Selecting<int64_t>;

}  // namespace jsparse
