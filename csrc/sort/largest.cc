// The k largest numbers of each segment. For a small k, one pass keeps the k largest keys so far, and compares blocks of
// keys with the least of them. For a larger k the k-th largest key is selected, in a long segment from the numbers whose
// key begins with its leading bits, and then all keys are compared with it.
#include <atomic>
#include <cstring>
#include <utility>

#include "memory/scratch.h"
#include "sort/number_key.h"
#include "sort/segments.h"
#include "threads/loops.h"

namespace jsparse {
namespace {

constexpr int64_t kFew = 32;  // the largest k for which one pass keeps the largest numbers
constexpr int64_t kBlock = 64;
constexpr int kLeading = 12;  // bits of a key by which numbers of a long segment are counted

// Which keys are kept: all keys above `least`, and the first `ties` keys that equal it.
template <class Key>
struct Threshold {
  Key least;
  int64_t ties;
};

template <class T, bool kMagnitude>
struct Largest {
  using Key = KeyOf<T>;

  Context* ctx;
  const T* numbers;
  const uint8_t* valid;  // null if all are valid
  int64_t k;
  uint8_t* kept;

  Key key(int64_t q) const { return key_of<kMagnitude>(numbers[q]); }
  bool is_valid(int64_t q) const { return valid == nullptr || valid[q] != 0; }

  void fill(int64_t begin, int64_t end, bool value) const {
    if (!value || valid == nullptr) std::fill(kept + begin, kept + end, static_cast<uint8_t>(value));
    else for (int64_t q = begin; q < end; ++q) kept[q] = valid[q] != 0;
  }

  // Keeps the largest numbers so far in descending order, equal ones in the order in which they come.
  void keep_few(int64_t begin, int64_t end) const {
    fill(begin, end, false);
    Key best[kFew];
    int64_t at[kFew], count = 0;
    const auto insert = [&](int64_t q, Key mine) {
      int64_t place = count < k ? count++ : k - 1;
      for (; place > 0 && best[place - 1] < mine; --place) best[place] = best[place - 1], at[place] = at[place - 1];
      best[place] = mine, at[place] = q;
    };
    int64_t q = begin;
    for (; q < end && count < k; ++q) {
      if (is_valid(q)) insert(q, key(q));
    }
    for (; q < end;) {
      const int64_t length = std::min(kBlock, end - q);
      Key keys[kBlock], most = 0;
      for (int64_t i = 0; i < length; ++i) keys[i] = key(q + i);
      for (int64_t i = 0; i < length; ++i) most = std::max(most, keys[i]);
      for (int64_t i = 0; most > best[k - 1] && i < length; ++i) {
        if (keys[i] > best[k - 1] && is_valid(q + i)) insert(q + i, keys[i]);
      }
      q += length;
    }
    for (int64_t i = 0; i < count; ++i) kept[at[i]] = 1;
  }

  // Selects the threshold of `n` > k keys, whose order changes.
  static Threshold<Key> select(Key* keys, int64_t n, int64_t k) {
    std::nth_element(keys, keys + (n - k), keys + n);
    const Key least = keys[n - k];
    const int64_t above = std::count_if(keys + (n - k), keys + n, [least](Key x) { return x > least; });
    return {least, k - above};
  }

  void keep_many(int64_t begin, int64_t end, Key* keys) const {
    int64_t n = 0;
    for (int64_t q = begin; q < end; ++q) {
      keys[n] = key(q);
      n += is_valid(q);
    }
    if (n <= k) return fill(begin, end, true);
    mark(begin, end, select(keys, n, k));
  }

  void mark(int64_t begin, int64_t end, Threshold<Key> threshold) const {
    int64_t ties = threshold.ties;
    for (int64_t q = begin; q < end; ++q) {
      const Key mine = key(q);
      const bool counts = is_valid(q), tie = counts && mine == threshold.least && ties > 0;
      ties -= tie;
      kept[q] = (counts && mine > threshold.least) || tie;
    }
  }

  // Keeps all keys that are not below `least`. Returns how many are equal to it. The loop has no branch, which would
  // often be taken against its prediction.
  template <bool kChecked>
  int64_t mark_from(int64_t begin, int64_t end, Key least) const {
    int64_t equal = 0;
    for (int64_t q = begin; q < end; ++q) {
      const Key mine = key(q);
      const uint8_t counts = kChecked ? valid[q] : 1;
      kept[q] = static_cast<uint8_t>(mine >= least) & counts;
      equal += static_cast<uint8_t>(mine == least) & counts;
    }
    return equal;
  }

  // Keeps all valid keys from the threshold on, in slices. A slice with too many ties is marked again.
  void mark_long(int64_t begin, int64_t end, int64_t parts, Threshold<Key> threshold) const {
    std::vector<int64_t> ties(static_cast<size_t>(parts), 0);
    slices(ctx, end - begin, parts, [&](int64_t t, int64_t from, int64_t to) noexcept {
      ties[static_cast<size_t>(t)] = valid == nullptr ? mark_from<false>(begin + from, begin + to, threshold.least)
                                                      : mark_from<true>(begin + from, begin + to, threshold.least);
    });
    std::vector<int64_t> left(static_cast<size_t>(parts), 0);  // how many ties of each slice are kept
    int64_t total = threshold.ties;
    for (size_t t = 0; t < left.size(); ++t) total -= left[t] = std::min(total, ties[t]);
    slices(ctx, end - begin, parts, [&](int64_t t, int64_t from, int64_t to) noexcept {
      const auto n = static_cast<size_t>(t);
      if (left[n] < ties[n]) mark(begin + from, begin + to, {threshold.least, left[n]});
    });
  }

  std::pair<Key, Key> range(int64_t begin, int64_t end, int64_t parts) const {
    std::vector<Key> least(static_cast<size_t>(parts), ~Key{0}), most(static_cast<size_t>(parts), 0);
    slices(ctx, end - begin, parts, [&](int64_t t, int64_t from, int64_t to) noexcept {
      Key low = ~Key{0}, high = 0;
      for (int64_t q = begin + from; q < begin + to; ++q) low = std::min(low, key(q)), high = std::max(high, key(q));
      least[static_cast<size_t>(t)] = low, most[static_cast<size_t>(t)] = high;
    });
    return {*std::min_element(least.begin(), least.end()), *std::max_element(most.begin(), most.end())};
  }

  // Every slice counts its keys by their leading bits. The threshold is among the keys of one bucket.
  void keep_long(int64_t begin, int64_t end) const {
    constexpr int64_t kBuckets = int64_t{1} << kLeading;
    const int64_t n = end - begin, parts = slice_count(ctx, n);
    const std::pair<Key, Key> extent = range(begin, end, parts);
    const Key least = extent.first, width = extent.second - least;
    const int bits = width == 0 ? 0 : 64 - __builtin_clzll(static_cast<uint64_t>(width)), shift = std::max(0, bits - kLeading);
    const auto bucket_of = [=](Key key) { return static_cast<int64_t>((key - least) >> shift); };
    const Scratch<int64_t> counts(parts * kBuckets);
    slices(ctx, n, parts, [&](int64_t t, int64_t from, int64_t to) noexcept {
      int64_t* mine = counts.get() + t * kBuckets;
      std::fill_n(mine, kBuckets, int64_t{0});
      for (int64_t q = begin + from; q < begin + to; ++q) mine[bucket_of(key(q))] += is_valid(q);
    });
    int64_t bucket = kBuckets, inside = 0, left = k;  // `left` of the keys in this bucket are kept
    while (bucket > 0 && left > inside) {
      left -= inside, inside = 0, --bucket;
      for (int64_t t = 0; t < parts; ++t) inside += counts[t * kBuckets + bucket];
    }
    if (left > inside) return fill(begin, end, true);
    std::vector<int64_t> starts(static_cast<size_t>(parts) + 1, 0);
    for (int64_t t = 0; t < parts; ++t) {
      starts[static_cast<size_t>(t) + 1] = starts[static_cast<size_t>(t)] + counts[t * kBuckets + bucket];
    }
    const Scratch<Key> keys(inside);
    slices(ctx, n, parts, [&](int64_t t, int64_t from, int64_t to) noexcept {
      Key* next = keys.get() + starts[static_cast<size_t>(t)];
      for (int64_t q = begin + from; q < begin + to; ++q) {
        const Key mine = key(q);
        if (bucket_of(mine) == bucket && is_valid(q)) *next++ = mine;
      }
    });
    mark_long(begin, end, parts, select(keys.get(), inside, left));
  }

  void run(const Segments& given) const {
    const Shares shares = shares_of(ctx, given);
    const int64_t total = static_cast<int64_t>(shares.shares.size());
    const int64_t workers = std::min(total, std::min<int64_t>(std::max<int64_t>(ctx->num_threads, 1), 64));
    const int64_t most = k > kFew ? shares.longest : 0;
    const Scratch<Key> keys(workers * most);
    std::atomic<int64_t> next{0};
    if (workers > 0) each(ctx, workers, [&](int64_t t) noexcept {
      for (int64_t n; (n = next.fetch_add(1, std::memory_order_relaxed)) < total;) {
        for_each_segment(
            given, shares.shares[static_cast<size_t>(n)],
            [&](int64_t begin, int64_t end) {
              if (end - begin <= k) fill(begin, end, k > 0);
              else if (k <= kFew) keep_few(begin, end);
              else keep_many(begin, end, keys.get() + t * most);
            },
            [&](int64_t begin, int64_t end) { fill(begin, end, false); });
      }
    });
    for (size_t n = 0; n < shares.long_segments.size(); n += 2) {
      const int64_t begin = shares.long_segments[n], end = shares.long_segments[n + 1];
      if (end - begin <= k) fill(begin, end, true);
      else keep_long(begin, end);
    }
    fill(shares.end, given.count, false);
  }
};

}  // namespace

void largest_of_segments(Context* ctx, const Segments& given, bool by_magnitude, const uint8_t* valid, int64_t k,
                         uint8_t* kept) {
  if (given.count == 0) return;
  if (k <= 0) {
    std::memset(kept, 0, static_cast<size_t>(given.count));
    return;
  }
  with_number_type(given, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto* numbers = static_cast<const T*>(given.numbers);
    if (by_magnitude) Largest<T, true>{ctx, numbers, valid, k, kept}.run(given);
    else Largest<T, false>{ctx, numbers, valid, k, kept}.run(given);
  });
}

}  // namespace jsparse
