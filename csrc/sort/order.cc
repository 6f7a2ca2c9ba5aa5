// The packed tuples are partitioned by their leading bits. Each part fits the cache, where it is sorted. There are
// three passes over memory: one counts the parts, one fills them, and one sorts each part in place.
#include "sort/order.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "sort/lexsort.h"
#include "sort/packing.h"

namespace jsparse {
namespace {

constexpr int kPartBits = 11;
constexpr int64_t kPart = 4096;       // desired number of entries in a part
constexpr int64_t kCached = 1 << 15;  // entries: a part of at most this size is sorted without another partition

struct Survey {  // properties of one slice of the inputs
  int64_t count = 0;
  uint64_t first = 0, last = 0;
  uint64_t varying = 0;
  bool sorted = true;
};

// Sorts by whole words. They are distinct, because the lowest bits are the number of the input. So tuples that agree in
// the bits to sort by keep the order of the inputs.
void insertion_sort(uint64_t* a, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const uint64_t x = a[i];
    int64_t j = i;
    for (; j > 0 && a[j - 1] > x; --j) a[j] = a[j - 1];
    a[j] = x;
  }
}

// Sorts stably by the bits [low, high). `other` is temporary memory for n words. Recursion ends, because each step
// sorts by 8 bits.
void sort_part(uint64_t* a, uint64_t* other, int64_t n, int low, int high) {
  if (n <= 1 || high <= low) return;
  if (n <= 24) return insertion_sort(a, n);
  const int bits = high - low;
  const auto slot = [](uint64_t x, int shift, int width) { return (x >> shift) & ((uint64_t{1} << width) - 1); };
  if (n > kCached && bits > 8) {
    int64_t starts[257] = {0};
    const int shift = high - 8;
    for (int64_t i = 0; i < n; ++i) ++starts[slot(a[i], shift, 8) + 1];
    for (int b = 0; b < 256; ++b) starts[b + 1] += starts[b];
    int64_t next[256];
    std::memcpy(next, starts, sizeof next);
    for (int64_t i = 0; i < n; ++i) other[next[slot(a[i], shift, 8)]++] = a[i];
    std::memcpy(a, other, static_cast<size_t>(n) * sizeof *a);
    for (int b = 0; b < 256; ++b) sort_part(a + starts[b], other, starts[b + 1] - starts[b], low, shift);
    return;
  }
  const int passes = (bits + 7) / 8, width = (bits + passes - 1) / passes;
  uint64_t* from = a;
  uint64_t* to = other;
  for (int shift = low; shift < high; shift += width) {
    const int w = std::min(width, high - shift);
    int64_t next[256];
    std::memset(next, 0, sizeof(int64_t) << w);
    for (int64_t i = 0; i < n; ++i) ++next[slot(from[i], shift, w)];
    int64_t sum = 0;
    for (int b = 0; b < (1 << w); ++b) sum += std::exchange(next[b], sum);
    for (int64_t i = 0; i < n; ++i) to[next[slot(from[i], shift, w)]++] = from[i];
    std::swap(from, to);
  }
  if (from != a) std::memcpy(a, from, static_cast<size_t>(n) * sizeof *a);
}

// Sorts every part [bounds[b], bounds[b + 1]). A thread that is done with a part takes the next one.
void sort_parts(Context* ctx, uint64_t* words, const std::vector<int64_t>& bounds, int low, int high) {
  int64_t largest = 1;
  for (size_t b = 0; b + 1 < bounds.size(); ++b) largest = std::max(largest, bounds[b + 1] - bounds[b]);
  const int64_t n = bounds.back();
  const int64_t workers = n < kSerial ? 1 : std::min<int64_t>(std::max<int64_t>(ctx->num_threads, 1), 64);
  const Scratch<uint64_t> scratch(workers * largest);
  std::atomic<size_t> next{0};
  each(ctx, workers, [&](int64_t t) noexcept {
    for (size_t b; (b = next.fetch_add(1, std::memory_order_relaxed)) + 1 < bounds.size();) {
      const int64_t size = bounds[b + 1] - bounds[b];
      sort_part(words + bounds[b], scratch.get() + t * largest, size, low, high);
    }
  });
}

std::vector<int64_t> even_units(Context* ctx, int64_t n) {
  const int64_t count = slice_count(ctx, n);
  std::vector<int64_t> units;
  for (int64_t t = 0; t <= count; ++t) units.push_back(slice_begin(n, count, t));
  return units;
}

// Joins neighbouring parts into units of a useful size, and returns the bounds of the units.
std::vector<int64_t> joined_units(const std::vector<int64_t>& bounds) {
  std::vector<int64_t> units{0};
  for (const int64_t bound : bounds) {
    if (bound - units.back() >= kSerial / 2) units.push_back(bound);
  }
  if (units.back() != bounds.back() || units.size() == 1) units.push_back(bounds.back());
  return units;
}

// The number of tuples of each slice in each of 2**bits parts, [slice][part].
struct Parts {
  int bits = 0, shift = 0;  // the part of a tuple is (tuple >> shift) modulo 2**bits
  std::vector<int64_t> counts;

  Parts(int64_t n, int64_t slice_total, int low, int high) : bits(std::min(kPartBits, std::max(0, high - low))) {
    while (bits > 0 && (n >> bits) < kPart / 2) --bits;
    shift = high - bits;
    counts.assign(static_cast<size_t>(slice_total) << bits, 0);
  }
  int64_t* slice(int64_t t) { return counts.data() + (static_cast<size_t>(t) << bits); }
};

Survey survey(Context* ctx, const Packing& packing, int64_t n, int64_t slice_total, Parts* parts) {
  std::vector<Survey> found(static_cast<size_t>(slice_total));
  slices(ctx, n, slice_total, [&](int64_t t, int64_t begin, int64_t end) noexcept {
    Survey mine;
    int64_t* counts = parts->slice(t);
    const int shift = parts->shift;
    const uint64_t mask = (uint64_t{1} << parts->bits) - 1;
    for_each_packed(packing, begin, end, [&](int64_t, uint64_t word) {
      if (mine.count++ == 0) mine.first = mine.last = word;
      mine.varying |= word ^ mine.first;
      mine.sorted &= mine.last <= word;
      mine.last = word;
      ++counts[(word >> shift) & mask];
    });
    found[static_cast<size_t>(t)] = mine;
  });
  Survey all;
  for (const Survey& s : found) {
    if (s.count == 0) continue;
    if (all.count == 0) all.first = s.first;
    all.sorted = all.sorted && s.sorted && (all.count == 0 || all.last <= s.first);
    all.varying |= s.varying | (s.first ^ all.first);
    all.last = s.last;
    all.count += s.count;
  }
  return all;
}

void order_packed(Context* ctx, const Packing& packing, int64_t n, int total_bits, int sorted_bits, Ordered* out) {
  const int64_t count = slice_count(ctx, n);
  const int low = std::min(sorted_bits, total_bits), index_bits = out->index_bits;
  Parts parts(n, count, low, total_bits);
  const Survey found = survey(ctx, packing, n, count, &parts);
  out->count = found.count;
  out->in_order = found.sorted;
  out->words = Scratch<uint64_t>(out->count);
  // All words agree in the bits from `high` on. If the number of a part has many of these bits, most parts are empty,
  // so we partition by the bits below `high` instead.
  const int high = std::max(low, found.varying == 0 ? 0 : 64 - __builtin_clzll(found.varying));
  if (found.sorted) {
    out->units = even_units(ctx, out->count);
    parts = Parts(0, count, 0, 0);
  } else if (high + 3 < total_bits) {
    parts = Parts(n, count, low, high);
  }
  const int shift = parts.shift;
  const size_t total_parts = size_t{1} << parts.bits;
  const uint64_t mask = total_parts - 1;
  if (found.sorted || high + 3 < total_bits) {
    slices(ctx, n, count, [&](int64_t t, int64_t begin, int64_t end) noexcept {
      int64_t* counts = parts.slice(t);
      for_each_packed(packing, begin, end, [&](int64_t, uint64_t word) { ++counts[(word >> shift) & mask]; });
    });
  }
  std::vector<int64_t> bounds;
  int64_t sum = 0;
  for (size_t b = 0; b < total_parts; ++b) {
    bounds.push_back(sum);
    for (int64_t t = 0; t < count; ++t) sum += std::exchange(parts.slice(t)[b], sum);
  }
  bounds.push_back(sum);
  uint64_t* words = out->words.get();
  slices(ctx, n, count, [&](int64_t t, int64_t begin, int64_t end) noexcept {
    int64_t* to = parts.slice(t);
    for_each_packed(packing, begin, end, [&](int64_t i, uint64_t word) {
      words[to[(word >> shift) & mask]++] = word << index_bits | static_cast<uint64_t>(i);
    });
  });
  if (found.sorted) return;
  sort_parts(ctx, words, bounds, index_bits + low, index_bits + shift);
  out->units = joined_units(bounds);
}

void order_gathered(Context* ctx, const std::vector<Key>& keys, int64_t n, Ordered* out) {
  out->left = Scratch<int64_t>(n);
  for (int64_t i = 0; i < n; ++i) {
    bool inside = true;
    for (const Key& key : keys) inside &= static_cast<uint64_t>(key.at(i)) < static_cast<uint64_t>(key.size);
    if (inside) out->left[out->count++] = i;
  }
  std::vector<Key> views;
  for (const Key& key : keys) {
    out->rows.emplace_back(out->count);
    for (int64_t s = 0; s < out->count; ++s) out->rows.back()[s] = key.at(out->left[s]);
    views.push_back({out->rows.back().get(), true, key.size});
  }
  out->perm = Scratch<int64_t>(out->count);
  lexsort(ctx, views, out->count, out->perm.get());
  out->in_order = true;
  for (int64_t s = 0; s < out->count && out->in_order; ++s) out->in_order = out->perm[s] == s;
  out->units = even_units(ctx, out->count);
}

}  // namespace

Ordered order(Context* ctx, const std::vector<Key>& keys, int64_t n, int sorted_suffix) {
  Ordered out;
  out.inputs = n;
  out.index_bits = bits_for(n);
  int bits = 0, sorted_bits = 0;
  Packing packing{keys, std::vector<int>(keys.size())};
  out.level_of_bit.assign(64, 0);
  for (size_t l = keys.size(); l-- > 0;) {
    const int mine = bits_for(keys[l].size);
    packing.shift[l] = std::min(bits, 63);
    for (int b = bits; b < std::min(64, bits + mine); ++b) out.level_of_bit[static_cast<size_t>(b)] = static_cast<int8_t>(l);
    bits += mine;
    if (keys.size() - l <= static_cast<size_t>(sorted_suffix)) sorted_bits = bits;
  }
  if (bits + out.index_bits > 64 || bits > 63) {
    order_gathered(ctx, keys, n, &out);
    return out;
  }
  out.packed = true;
  for (size_t l = 0; l < keys.size(); ++l) {
    out.shift.push_back(std::min(packing.shift[l] + out.index_bits, 63));
    out.mask.push_back((uint64_t{1} << bits_for(keys[l].size)) - 1);
  }
  order_packed(ctx, packing, n, bits, sorted_bits, &out);
  return out;
}

}  // namespace jsparse
