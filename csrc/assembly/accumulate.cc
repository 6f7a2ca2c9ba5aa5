// The entries are partitioned by the leading bits of their tuples. Each part fits the cache: it is sorted there, and
// then written to the result. Its offset in the result is known as soon as all parts before it are sorted. A thread
// that finds no part to write sorts the next one instead of waiting.
#include "assembly/accumulate.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <mutex>
#include <type_traits>
#include <utility>

#include "memory/scratch.h"
#include "sort/key_value_sort.h"
#include "sort/packing.h"
#include "threads/loops.h"

namespace jsparse {
namespace {

constexpr int kPartBits = 11;
constexpr int64_t kPart = 4096;  // desired number of entries in a part
constexpr int64_t kMost = std::numeric_limits<int32_t>::max() - 1;
constexpr int64_t kSamples = 1024;

struct Pair { float real, imag; };
struct WidePair {
  double real = 0, imag = 0;
  WidePair() = default;
  explicit WidePair(Pair pair) : real(pair.real), imag(pair.imag) {}
  explicit operator Pair() const { return {static_cast<float>(real), static_cast<float>(imag)}; }
  WidePair operator+(WidePair other) const {
    other.real += real;
    other.imag += imag;
    return other;
  }
};

// The type in which the values of a slot are added up. It is wide enough that small floats are not lost in large sums.
template <class Value> struct SumOf { using type = Value; };
template <> struct SumOf<float> { using type = double; };
template <> struct SumOf<Pair> { using type = WidePair; };

template <class Value, class Word>
Value value_of(Word word) {
  const auto bits = static_cast<std::conditional_t<sizeof(Value) == 4, uint32_t, uint64_t>>(word);
  Value value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

struct Part {
  int64_t begin = 0, end = 0;  // the part has the entries [begin, end)
  uint64_t last = 0;           // greatest tuple of the part
  int64_t groups = 0;          // number of distinct tuples
  int64_t before = 0;          // number of distinct tuples in all parts before it
  int64_t parent = 0;          // first parent whose pointer this part writes
  bool sorted = false;
};

}  // namespace

struct Accumulation::Plan {
  Layout layout;
  Packing packing;
  int64_t n;
  const void* values;
  Number number;

  int first = 0;          // first level of the chain
  int64_t parents = 1;
  int bits = 0, shift = 0;  // a tuple has `bits` bits, and tuple >> shift is the number of its part
  int64_t slice_total = 1;
  std::vector<int64_t> starts;  // [slice][part]
  std::vector<Part> parts;

  int64_t size(int level) const { return layout.at(level).size; }
  int below(int level) const { return packing.shift[static_cast<size_t>(level)]; }  // bits below the level's coordinate
  int64_t coordinate(uint64_t tuple, int level) const {
    return static_cast<int64_t>((tuple >> below(level)) & ((uint64_t{1} << bits_for(size(level))) - 1));
  }
  int64_t parent(uint64_t tuple) const {
    int64_t p = 0;
    for (int l = 0; l < first; ++l) p = p * size(l) + coordinate(tuple, l);
    return p;
  }
  bool wide_value() const { return number != Number::kFloat && number != Number::kWord; }
  bool narrow() const { return !wide_value() && shift <= 32; }

  bool suits();
  bool seems_sorted() const;
  bool count_parts(Context* ctx);
  template <class Word> bool fill(Context* ctx, KeyValue<Word>* entries);
  template <class Value, class Word> void write(const KeyValue<Word>* entries, const Part& part, const Accumulated& out) const;
  template <class Value, class Word> void order_and_write(Context* ctx, KeyValue<Word>* entries, Accumulated* out);
  template <class Value, class Word> bool run(Context* ctx, Accumulated* out);
};

bool Accumulation::Plan::suits() {
  const int levels = layout.count();
  if (levels == 0 || n < kPart || n > kMost) return false;
  while (first < levels && layout.at(first).traits().computed()) ++first;
  if (first == levels || !layout.at(first).traits().coordinates || layout.chain_end[static_cast<size_t>(first)] != levels) return false;
  for (int l = 0; l < levels; ++l) {
    if (size(l) > kMost) return false;
    if (l < first && (__builtin_mul_overflow(parents, size(l), &parents) || parents > kMost)) return false;
  }
  packing.shift.assign(static_cast<size_t>(levels), 0);
  for (int l = levels; l-- > 0;) {
    packing.shift[static_cast<size_t>(l)] = bits;
    bits += bits_for(size(l));
    if (bits > 63) return false;
  }
  return true;
}

// Guesses from a sample of neighbouring entries. A wrong guess only costs time.
bool Accumulation::Plan::seems_sorted() const {
  for (int64_t k = 0; k < kSamples; ++k) {
    const int64_t i = k * ((n - 2) / kSamples);
    for (const Key& key : packing.keys) {
      if (key.at(i) < key.at(i + 1)) break;
      if (key.at(i) > key.at(i + 1)) return false;
    }
  }
  return true;
}

// Counts the entries of each part, and returns whether the parts have useful sizes.
bool Accumulation::Plan::count_parts(Context* ctx) {
  int part_bits = std::min(kPartBits, bits);
  while (part_bits > 0 && (n >> part_bits) < kPart / 2) --part_bits;
  shift = bits - part_bits;
  Packing leading;  // the levels whose coordinates have bits in the number of a part
  for (int l = 0; l < layout.count(); ++l) {
    const auto at = static_cast<size_t>(l);
    if (below(l) + bits_for(size(l)) <= shift) break;
    leading.keys.push_back(packing.keys[at]);
    leading.shift.push_back(packing.shift[at]);
  }
  slice_total = slice_count(ctx, n);
  const auto total = size_t{1} << part_bits;
  starts.assign(static_cast<size_t>(slice_total) * total, 0);
  slices(ctx, n, slice_total, [&](int64_t t, int64_t begin, int64_t end) noexcept {
    int64_t* mine = starts.data() + static_cast<size_t>(t) * total;
    for_each_packed(leading, begin, end, [&](int64_t, uint64_t tuple) { ++mine[tuple >> shift]; });
  });
  int64_t sum = 0, largest = 0;
  for (size_t b = 0; b < total; ++b) {
    Part part;
    part.begin = sum;
    for (int64_t t = 0; t < slice_total; ++t) sum += std::exchange(starts[static_cast<size_t>(t) * total + b], sum);
    part.end = sum;
    largest = std::max(largest, part.end - part.begin);
    parts.push_back(part);
  }
  return sum == n && (largest <= std::max(16 * kPart, n / 4));
}

template <class Word>
bool Accumulation::Plan::fill(Context* ctx, KeyValue<Word>* entries) {
  const size_t total = parts.size();
  const uint64_t mask = (uint64_t{1} << shift) - 1;
  std::atomic<int64_t> inside{0};
  slices(ctx, n, slice_total, [&](int64_t t, int64_t begin, int64_t end) noexcept {
    int64_t* to = starts.data() + static_cast<size_t>(t) * total;
    int64_t mine = 0;
    const auto with = [&](const auto* data) {
      for_each_packed(packing, begin, end, [&](int64_t i, uint64_t tuple) {
        entries[to[tuple >> shift]++] = {static_cast<Word>(tuple & mask), static_cast<Word>(data[i])};
        ++mine;
      });
    };
    if (wide_value()) with(static_cast<const uint64_t*>(values));
    else with(static_cast<const uint32_t*>(values));
    inside += mine;
  });
  return inside == n;
}

template <class Value, class Word>
void Accumulation::Plan::write(const KeyValue<Word>* entries, const Part& part, const Accumulated& out) const {
  if (part.begin == part.end) return;
  const uint64_t base = static_cast<uint64_t>(&part - parts.data()) << shift;
  const int levels = layout.count(), last = levels - 1, chain_bits = below(first) + bits_for(size(first));
  const auto tail = static_cast<uint32_t>((uint64_t{1} << bits_for(size(last))) - 1);  // sizes fit 31 bits
  auto* const sums = static_cast<Value*>(out.values);
  int32_t* const columns = out.coordinates.back();
  int64_t at = part.before - 1, next = part.parent;
  uint64_t known = ~uint64_t{0};
  const Word* key = nullptr;
  using Sum = typename SumOf<Value>::type;
  Sum sum{};
  for (const KeyValue<Word>* entry = entries + part.begin; entry != entries + part.end; ++entry) {
    if (key != nullptr && *key == entry->key) {
      sum = sum + static_cast<Sum>(value_of<Value>(entry->value));
      sums[at] = static_cast<Value>(sum);
      continue;
    }
    key = &entry->key;
    ++at;
    const uint64_t tuple = base | entry->key;
    if (tuple >> chain_bits != known) {
      known = tuple >> chain_bits;
      for (const int64_t p = parent(tuple); next <= p; ++next) out.pointers[next] = static_cast<int32_t>(at);
    }
    for (int l = first; l < last; ++l) {
      out.coordinates[static_cast<size_t>(l - first)][at] = static_cast<int32_t>(coordinate(tuple, l));
    }
    columns[at] = static_cast<int32_t>(static_cast<uint32_t>(tuple) & tail);
    sums[at] = value_of<Value>(entry->value);
    sum = static_cast<Sum>(sums[at]);
  }
}

template <class Value, class Word>
void Accumulation::Plan::order_and_write(Context* ctx, KeyValue<Word>* entries, Accumulated* out) {
  int64_t largest = 1;
  for (const Part& part : parts) largest = std::max(largest, part.end - part.begin);
  const int64_t workers = n < kSerial ? 1 : std::min<int64_t>(std::max<int64_t>(ctx->num_threads, 1), 64);
  const Scratch<KeyValue<Word>> other(workers * largest);
  std::mutex mutex;
  size_t unsorted = 0, unwritten = 0, frontier = 0;  // parts before `frontier` are sorted
  int64_t groups = 0, next_parent = 0;
  each(ctx, workers, [&](int64_t t) noexcept {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      if (unwritten < frontier) {
        const Part& part = parts[unwritten++];
        lock.unlock();
        write<Value>(entries, part, *out);
        lock.lock();
        continue;
      }
      if (unsorted == parts.size()) return;  // the threads that sort the last parts write the rest
      Part& part = parts[unsorted++];
      lock.unlock();
      KeyValue<Word>* mine = entries + part.begin;
      const int64_t count = part.end - part.begin;
      key_value_sort(mine, other.get() + t * largest, count, shift);
      for (int64_t i = 0; i < count; ++i) part.groups += i == 0 || mine[i].key != mine[i - 1].key;
      if (count > 0) part.last = static_cast<uint64_t>(&part - parts.data()) << shift | mine[count - 1].key;
      lock.lock();
      part.sorted = true;
      for (; frontier < parts.size() && parts[frontier].sorted; ++frontier) {
        Part& ready = parts[frontier];
        ready.before = groups;
        ready.parent = next_parent;
        groups += ready.groups;
        if (ready.groups > 0) next_parent = parent(ready.last) + 1;
      }
    }
  });
  for (; next_parent <= parents; ++next_parent) out->pointers[next_parent] = static_cast<int32_t>(groups);
  out->count = groups;
}

template <class Value, class Word>
bool Accumulation::Plan::run(Context* ctx, Accumulated* out) {
  const Scratch<KeyValue<Word>> entries(n);
  if (!fill(ctx, entries.get())) return false;
  order_and_write<Value>(ctx, entries.get(), out);
  return true;
}

Accumulation::Accumulation(const Layout& layout, const std::vector<Key>& keys, int64_t n, const void* values, Number number)
    : plan_(new Plan{layout, {keys, {}}, n, values, number, 0, 1, 0, 0, 1, {}, {}}) {}

Accumulation::~Accumulation() = default;

bool Accumulation::survey(Context* ctx) { return plan_->suits() && !plan_->seems_sorted() && plan_->count_parts(ctx); }

int64_t Accumulation::parents() const { return plan_->parents; }

int Accumulation::chain() const { return plan_->layout.count() - plan_->first; }

bool Accumulation::run(Context* ctx, Accumulated* out) {
  Plan& plan = *plan_;
  switch (plan.number) {
    case Number::kFloat: return plan.narrow() ? plan.run<float, uint32_t>(ctx, out) : plan.run<float, uint64_t>(ctx, out);
    case Number::kWord: return plan.narrow() ? plan.run<uint32_t, uint32_t>(ctx, out) : plan.run<uint32_t, uint64_t>(ctx, out);
    case Number::kDouble: return plan.run<double, uint64_t>(ctx, out);
    case Number::kLong: return plan.run<uint64_t, uint64_t>(ctx, out);
    case Number::kComplex: return plan.run<Pair, uint64_t>(ctx, out);
  }
  return false;
}

}  // namespace jsparse
