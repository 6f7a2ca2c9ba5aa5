// Arithmetic progressions of coordinates, which slices select.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace jsparse {

// The coordinates start + k * step for 0 <= k < size. The new coordinate of each is k.
struct Progression {
  int64_t start, step, size;

  // Returns whether all coordinates lie in [0, most].
  bool fits(int64_t most) const {
    if (size == 0) return true;
    int64_t reach, last;
    if (size < 0 || (step == 0 && size > 1) || start < 0 || start > most) return false;
    if (__builtin_mul_overflow(size - 1, step, &reach) || __builtin_add_overflow(start, reach, &last)) return false;
    return last >= 0 && last <= most;
  }
};

// Positions [begin, end) of a segment.
struct Span {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

constexpr int64_t kShortSpan = 32;  // to test all entries of a shorter part costs less than the branches of a bisection

__extension__ using WideProduct = unsigned __int128;

// The tests of a progression on coordinates. Differences are unsigned, so each test of a range is one comparison, and
// nothing overflows.
template <class Index>
class SliceTest {
 public:
  using Offset = std::make_unsigned_t<Index>;

  SliceTest() = default;
  explicit SliceTest(const Progression& p) : backward_(p.step < 0 && p.size > 1), none_(p.size == 0) {
    if (none_) return;
    const int64_t last = p.start + (p.size - 1) * p.step;
    low_ = static_cast<Index>(std::min(p.start, last));
    high_ = static_cast<Index>(std::max(p.start, last));
    if (p.size > 1) step_ = static_cast<Offset>(p.step < 0 ? -static_cast<uint64_t>(p.step) : static_cast<uint64_t>(p.step));
    last_ = static_cast<Offset>(p.size - 1);
    // The quotient of two numbers of 32 bits is the upper half of a product with 2**64 / step, rounded up (Lemire, Kaser
    // and Kurz, "Faster remainder by direct computation", 2019).
    reciprocal_ = step_ > 1 ? ~uint64_t{0} / step_ + 1 : 0;
  }

  bool backward() const { return backward_; }
  bool is_range() const { return step_ == 1; }

  // Returns how far a coordinate is from the lowest one. That exceeds `reach` unless the coordinate is between the bounds.
  Offset distance(Index c) const { return static_cast<Offset>(c) - static_cast<Offset>(low_); }
  Offset reach() const { return static_cast<Offset>(high_) - static_cast<Offset>(low_); }

  // Returns the new coordinate of a selected coordinate. For any other coordinate the result is unspecified.
  Index renumbered(Index c) const {
    const Offset steps = quotient(distance(c));
    return static_cast<Index>(backward_ ? last_ - steps : steps);
  }

  // Returns whether a coordinate lies between the bounds. In a range all of these are selected.
  bool within(Index c) const { return !none_ & (distance(c) <= reach()); }
  bool selects(Index c) const { return within(c) & (quotient(distance(c)) * step_ == distance(c)); }

  // Returns the part of a sorted segment between the lowest and the highest coordinate, or all of a short one.
  // Whatever the content, the part lies within the segment.
  Span narrowed(const Index* coordinates, Span part) const {
    if (none_) return {part.begin, part.begin};
    if (part.size() <= kShortSpan) return part;
    const Index* const first = std::lower_bound(coordinates + part.begin, coordinates + part.end, low_);
    return {first - coordinates, std::upper_bound(first, coordinates + part.end, high_) - coordinates};
  }

 private:
  Offset quotient(Offset far) const {
    if (step_ == 1) return far;
    if (sizeof(Index) == 4) return static_cast<Offset>(static_cast<WideProduct>(reciprocal_) * far >> 64);
    return far / step_;
  }

  bool backward_ = false, none_ = true;
  Index low_ = 0, high_ = 0;
  Offset step_ = 1, last_ = 0;
  uint64_t reciprocal_ = 0;
};

}  // namespace jsparse
