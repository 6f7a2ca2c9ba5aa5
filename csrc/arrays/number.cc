#include "arrays/number.h"

#include <algorithm>

#include "memory/scratch.h"

namespace jsparse {
namespace {

// The slots of the numbers that were met, in a hash table with linear probing, which is at most half full.
template <class Index>
class Slots {
 public:
  Slots(const Index* kept, int64_t most) : kept_(kept) {
    while ((int64_t{1} << bits_) < 2 * most) ++bits_;
    const int64_t length = int64_t{1} << bits_;
    table_ = Scratch<int64_t>(length);
    std::fill(table_.get(), table_.get() + length, int64_t{-1});
  }

  // Returns the place of a number's slot, which is -1 if the number was not met.
  int64_t& at(Index number) {
    const uint64_t mask = (uint64_t{1} << bits_) - 1;
    uint64_t place = (static_cast<uint64_t>(number) * 0x9E3779B97F4A7C15u) >> (64 - bits_);
    while (table_[static_cast<int64_t>(place)] >= 0 && kept_[table_[static_cast<int64_t>(place)]] != number) {
      place = (place + 1) & mask;
    }
    return table_[static_cast<int64_t>(place)];
  }

 private:
  const Index* kept_;
  int bits_ = 1;
  Scratch<int64_t> table_;
};

template <class Index>
void number_as(const Numbering& n) {
  const auto* const leading = static_cast<const Index*>(n.leading);
  const auto* const numbers = static_cast<const Index*>(n.numbers);
  auto* const slots = static_cast<Index*>(n.slots);
  auto* const kept = static_cast<Index*>(n.kept);
  const auto inside = [&](Index number) { return number >= 0 && number < n.size; };
  std::fill(kept, kept + n.room, static_cast<Index>(n.size));
  Slots<Index> met(kept, std::min(n.room, n.leading_count + n.count));
  int64_t next = std::min(n.leading_count, n.room);
  for (int64_t i = 0; i < next; ++i) {
    if (!inside(leading[i])) continue;
    kept[i] = leading[i];
    int64_t& slot = met.at(leading[i]);
    if (slot < 0) slot = i;
  }
  for (int64_t i = 0; i < n.count; ++i) {
    slots[i] = -1;
    if (!inside(numbers[i])) continue;
    int64_t& slot = met.at(numbers[i]);
    if (slot < 0 && next < n.room) {
      kept[next] = numbers[i];
      slot = next++;
    }
    slots[i] = static_cast<Index>(slot);
  }
}

}  // namespace

void number(const Numbering& numbering) { numbering.wide ? number_as<int64_t>(numbering) : number_as<int32_t>(numbering); }

}  // namespace jsparse
