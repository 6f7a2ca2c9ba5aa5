#include <atomic>
#include <numeric>

#include "memory/scratch.h"
#include "sort/key_value_sort.h"
#include "sort/number_key.h"
#include "sort/radix.h"
#include "sort/ranks.h"
#include "sort/segments.h"
#include "threads/loops.h"

namespace jsparse {
namespace {

template <class T, class Index>
struct Sort {
  using Key = KeyOf<T>;
  using Entry = KeyValue<Key>;

  Context* ctx;
  const T* numbers;
  Key flip;  // all bits if the order is descending
  int64_t size;
  Index* order;  // null if `sorted` is not
  T* sorted;
  Index* places;

  Key key(int64_t q) const { return key_of<false>(numbers[q]) ^ flip; }
  // The key of 0. Keys on its one side are the keys of negative numbers.
  Key zero() const { return key_of<false>(T{0}) ^ flip; }
  bool is_negative(Key key) const { return flip == 0 ? key < zero() : key > zero(); }

  // The number at `from` comes to q.
  void put(int64_t q, int64_t from) const {
    if (sorted != nullptr) sorted[q] = numbers[from];
    else order[q] = static_cast<Index>(from);
  }

  void gap(int64_t begin, int64_t end) const {
    for (int64_t q = begin; q < end; ++q) put(q, q);
    std::fill(places + begin, places + end, static_cast<Index>(size));
  }

  // Numbers that come before the elements that are not stored stay at the beginning of the row; the others are at its
  // end.
  void place(int64_t begin, int64_t end, int64_t negative) const {
    const int64_t front = flip == 0 ? negative : end - begin - negative;
    for (int64_t q = begin; q < begin + front; ++q) places[q] = static_cast<Index>(q - begin);
    for (int64_t q = begin + front; q < end; ++q) places[q] = static_cast<Index>(size - end + q);
  }

  void sort_few(int64_t begin, int64_t end) const {
    using Signed = std::make_signed_t<Key>;
    constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
    const int64_t n = end - begin, padded = (n + kRankBlock - 1) / kRankBlock * kRankBlock;
    if (n <= 0) return;
    Signed keys[kRanked];
    int32_t ranks[kRanked], ties[kRanked] = {0};
    int64_t negative = 0;
    for (int64_t i = 0; i < n; ++i) {
      const Key mine = key(begin + i);
      negative += is_negative(mine);
      keys[i] = static_cast<Signed>(mine ^ kSign);
    }
    std::fill(keys + n, keys + padded, std::numeric_limits<Signed>::max());  // less than no key
    count_less(keys, padded, ranks);
    for (int64_t i = 0; i < n; ++i) put(begin + ranks[i] + ties[ranks[i]]++, begin + i);
    place(begin, end, negative);
  }

  void sort_many(int64_t begin, int64_t end, Entry* entries, Entry* other) const {
    const int64_t n = end - begin;
    int64_t negative = 0;
    Key least = ~Key{0}, most = 0;
    for (int64_t i = 0; i < n; ++i) {
      const Key mine = key(begin + i);
      negative += is_negative(mine);
      least = std::min(least, mine), most = std::max(most, mine);
      entries[i] = {mine, static_cast<Key>(i)};
    }
    for (int64_t i = 0; i < n; ++i) entries[i].key -= least;
    const int bits = most == least ? 0 : 64 - __builtin_clzll(static_cast<uint64_t>(most - least));
    key_value_sort(entries, other, n, bits);
    for (int64_t i = 0; i < n; ++i) put(begin + i, begin + static_cast<int64_t>(entries[i].value));
    place(begin, end, negative);
  }

  // A narrow key and an index share a word.
  void sort_long(int64_t begin, int64_t end) const {
    const int64_t n = end - begin;
    if (sizeof(Key) == 4 && n < (int64_t{1} << 32)) {
      const auto item = [](Key key, int64_t i) { return static_cast<uint64_t>(key) << 32 | static_cast<uint64_t>(i); };
      sort_items<uint64_t>(begin, end, 32, item, [](uint64_t x) { return static_cast<int64_t>(x & 0xffffffff); });
    } else {
      const auto item = [](Key key, int64_t i) { return Pair{key, static_cast<uint64_t>(i)}; };
      sort_items<Pair>(begin, end, 0, item, [](const Pair& x) { return static_cast<int64_t>(x.index); });
    }
  }

  template <class Item, class Make, class IndexOf>
  void sort_items(int64_t begin, int64_t end, int low, const Make& make, const IndexOf& index_of) const {
    const int64_t n = end - begin, parts = std::max<int64_t>(1, std::min<int64_t>(ctx->num_threads, 16));
    std::vector<Item> items(static_cast<size_t>(n));
    std::vector<int64_t> negative(static_cast<size_t>(parts), 0);
    std::vector<uint64_t> varying(static_cast<size_t>(parts), 0);
    const uint64_t first = word_of(make(key(begin), 0));
    slices(ctx, n, parts, [&](int64_t t, int64_t from, int64_t to) noexcept {
      uint64_t differ = 0;
      for (int64_t i = from; i < to; ++i) {
        const Key mine = key(begin + i);
        negative[static_cast<size_t>(t)] += is_negative(mine);
        items[static_cast<size_t>(i)] = make(mine, i);
        differ |= word_of(items[static_cast<size_t>(i)]) ^ first;
      }
      varying[static_cast<size_t>(t)] = differ;
    });
    const uint64_t differ = std::accumulate(varying.begin(), varying.end(), uint64_t{0}, std::bit_or<>());
    radix_sort(ctx, items, low, low + static_cast<int>(8 * sizeof(Key)), differ, parts);
    slices(ctx, n, parts, [&](int64_t, int64_t from, int64_t to) noexcept {
      for (int64_t i = from; i < to; ++i) put(begin + i, begin + index_of(items[static_cast<size_t>(i)]));
    });
    place(begin, end, std::accumulate(negative.begin(), negative.end(), int64_t{0}));
  }

  void run(const Segments& given) const {
    const Shares shares = shares_of(ctx, given);
    const int64_t total = static_cast<int64_t>(shares.shares.size()), most = shares.longest > kRanked ? shares.longest : 0;
    const int64_t workers = std::min(total, std::min<int64_t>(std::max<int64_t>(ctx->num_threads, 1), 64));
    const Scratch<Entry> entries(2 * workers * most);
    std::atomic<int64_t> next{0};
    if (workers > 0) each(ctx, workers, [&](int64_t t) noexcept {
      Entry* mine = entries.get() + 2 * t * most;
      for (int64_t n; (n = next.fetch_add(1, std::memory_order_relaxed)) < total;) {
        for_each_segment(
            given, shares.shares[static_cast<size_t>(n)],
            [&](int64_t begin, int64_t end) {
              if (end - begin <= kRanked) sort_few(begin, end);
              else sort_many(begin, end, mine, mine + most);
            },
            [&](int64_t begin, int64_t end) { gap(begin, end); });
      }
    });
    for (size_t n = 0; n < shares.long_segments.size(); n += 2) {
      sort_long(shares.long_segments[n], shares.long_segments[n + 1]);
    }
    gap(shares.end, given.count);
  }
};

}  // namespace

void sort_segments(Context* ctx, const Segments& given, bool descending, int64_t size, void* order, void* sorted,
                   void* places) {
  with_number_type(given, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto* numbers = static_cast<const T*>(given.numbers);
    const KeyOf<T> flip = descending ? ~KeyOf<T>{0} : KeyOf<T>{0};
    const auto run = [&](auto* index) {
      using Index = std::remove_pointer_t<decltype(index)>;
      Sort<T, Index>{ctx, numbers, flip, size, static_cast<Index*>(order), static_cast<T*>(sorted),
                     static_cast<Index*>(places)}
          .run(given);
    };
    if (given.wide_starts) run(static_cast<int64_t*>(nullptr));
    else run(static_cast<int32_t*>(nullptr));
  });
}

}  // namespace jsparse
