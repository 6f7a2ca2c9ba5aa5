// A least-significant-digit radix sort over packed keys.
//
// The coordinates of a tuple are packed into as few 64-bit words as their sizes allow. Each word is sorted in turn, the
// least significant first. Where a word leaves enough bits for the tuple's own number, as the indices of nearly all
// matrices do, the two share one word and a pass moves 8 bytes per tuple.
#include "sort/lexsort.h"

#include <algorithm>
#include <numeric>

#include "sort/radix.h"
#include "threads/loops.h"

namespace jsparse {
namespace {

constexpr int64_t kParallel = 1 << 20;  // a pass over fewer tuples costs no more than starting the threads

int bits_for(int64_t size) {  // number of bits that distinguish `size` values
  int bits = 0;
  while (bits < 63 && (int64_t{1} << bits) < size) ++bits;
  return bits;
}

// A word has the keys [begin, end), the last one in the lowest bits.
struct Word {
  size_t begin, end;
  int bits;
};

std::vector<Word> pack(const std::vector<Key>& keys) {  // returns the words, the least significant one first
  std::vector<Word> words;
  for (size_t k = keys.size(); k-- > 0;) {
    const int bits = bits_for(keys[k].size);
    if (words.empty() || words.back().bits + bits > 64) words.push_back({k + 1, k + 1, 0});
    words.back().begin = k;
    words.back().bits += bits;
  }
  return words;
}

// Sets words[i] to the word of the i-th of n > 0 tuples. Returns the bits in which some two differ.
uint64_t fill(Context* ctx, const std::vector<Key>& keys, const Word& word, int64_t n, int64_t parts, uint64_t* words) {
  std::vector<uint64_t> varying(static_cast<size_t>(parts)), first(static_cast<size_t>(parts));
  slices(ctx, n, parts, [&](int64_t t, int64_t begin, int64_t end) noexcept {
    const auto append = [&](const auto* data, int bits, bool first) {
      if (first) {
        for (int64_t i = begin; i < end; ++i) words[i] = static_cast<uint64_t>(data[i]);
      } else {
        for (int64_t i = begin; i < end; ++i) words[i] = (words[i] << bits) | static_cast<uint64_t>(data[i]);
      }
    };
    for (size_t k = word.begin; k < word.end; ++k) {
      const int bits = bits_for(keys[k].size);
      if (keys[k].wide) append(static_cast<const int64_t*>(keys[k].data), bits, k == word.begin);
      else append(static_cast<const int32_t*>(keys[k].data), bits, k == word.begin);
    }
    uint64_t differ = 0;
    for (int64_t i = begin; i < end; ++i) differ |= words[i] ^ words[begin];
    varying[static_cast<size_t>(t)] = differ;
    first[static_cast<size_t>(t)] = words[begin];
  });
  uint64_t differ = 0;
  for (size_t t = 0; t < varying.size(); ++t) differ |= varying[t] | (first[t] ^ first[0]);
  return differ;
}

bool sorted(const std::vector<Key>& keys, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    for (const Key& key : keys) {
      const int64_t before = key.at(i - 1), now = key.at(i);
      if (before < now) break;
      if (before > now) return false;
    }
  }
  return true;
}

}  // namespace

int64_t lexsort(Context* ctx, const std::vector<Key>& keys, int64_t n, int64_t* out) {
  for (const Key& key : keys) {
    const int64_t bad = key.wide ? out_of_range(static_cast<const int64_t*>(key.data), n, key.size)
                                 : out_of_range(static_cast<const int32_t*>(key.data), n, key.size);
    if (bad >= 0) return bad;
  }
  if (sorted(keys, n)) {
    std::iota(out, out + n, int64_t{0});
    return -1;
  }
  const int64_t parts = n < kParallel ? 1 : std::max<int64_t>(1, std::min<int64_t>(ctx->num_threads, 16));
  const std::vector<Word> words = pack(keys);
  std::vector<uint64_t> packed(static_cast<size_t>(n));
  const int index_bits = bits_for(n);
  if (words.size() == 1 && words[0].bits + index_bits <= 64) {
    const uint64_t varying = fill(ctx, keys, words[0], n, parts, packed.data()) << index_bits;
    for (size_t i = 0; i < packed.size(); ++i) packed[i] = packed[i] << index_bits | i;
    radix_sort(ctx, packed, index_bits, index_bits + words[0].bits, varying, parts);
    const uint64_t mask = (uint64_t{1} << index_bits) - 1;
    for (size_t i = 0; i < packed.size(); ++i) out[i] = static_cast<int64_t>(packed[i] & mask);
    return -1;
  }
  std::vector<Pair> pairs(static_cast<size_t>(n));
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i].index = i;
  for (const Word& word : words) {
    const uint64_t varying = fill(ctx, keys, word, n, parts, packed.data());
    for (Pair& pair : pairs) pair.word = packed[pair.index];
    radix_sort(ctx, pairs, 0, word.bits, varying, parts);
  }
  for (size_t i = 0; i < pairs.size(); ++i) out[i] = static_cast<int64_t>(pairs[i].index);
  return -1;
}

}  // namespace jsparse
