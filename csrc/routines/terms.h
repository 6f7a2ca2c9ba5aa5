// The terms of a sum whose pattern a routine finds, and the kernels that compute them.
//
// The table of terms is an array of int64:
//
//   number of factors; bytes of a value, or 0 if there are no values; whether values have NaN, and its bytes;
//   whether the count of a source comes before the factors (see Overflow);
//   the index array whose last element is the result's true count, or -1, and how many entries it may count;
//   number of terms;
//   for each term: address of the symbolic kernel, address of the numeric kernel, number of arrays;
//     for each array: bytes of an element if the array has the batch axis of params.h, else 0
//
// Both kernels take the arrays of their term. The numeric kernel takes the factors before them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <utility>
#include <vector>

#include "routines/batch.h"

namespace jsparse {

constexpr int64_t kChunks = 64;  // maximum number of chunks of a parallel loop; MAX_CHUNKS of compiler/lower/chunks.py
constexpr int64_t kTableHead = 8;  // the length of the table's head; the same as HEAD in compiler/runtime/assembly_call.py
// The maximum number of columns that one pass writes. A chunk that has more gets a pass of its own.
constexpr int64_t kRoom = int64_t{1} << 28;

struct Term {
  Kernel count, write;
  size_t factors, factor_count;  // first buffer of the factors, and their number
  size_t first;                  // buffer of the term's first array
  std::vector<int64_t> widths;   // bytes of an element of each array, or 0 if the array is not batched

  // Runs the kernel on the arrays of a member of the batch, and on further buffers. Throws KernelError if the kernel
  // fails.
  void run(Kernel kernel, Context* ctx, const Call& call, int64_t member,
          std::initializer_list<std::pair<void*, const int64_t*>> more) const {
    std::vector<void*> buffers;
    std::vector<const int64_t*> dims;
    for (size_t n = 0; kernel == write && n < factor_count; ++n) {
      buffers.push_back(call.buffers[factors + n]);
      dims.push_back(call.dims[factors + n]);
    }
    for (size_t n = 0; n < widths.size(); ++n) {
      const bool batched = call.params.batched && widths[n] > 0;
      const int64_t* shape = call.dims[first + n];
      buffers.push_back(call.at(first + n, member, batched ? shape[1] * widths[n] : 0));
      dims.push_back(shape + (batched ? 1 : 0));
    }
    for (const auto& [data, shape] : more) {
      buffers.push_back(data);
      dims.push_back(shape);
    }
    if (kernel(ctx, buffers.data(), dims.data()) == 0) return;
    if (ctx->error != nullptr) throw KernelError(ctx->error);
    throw std::bad_alloc();
  }

  // Writes the number of columns of each chunk, or an upper bound, to counts [kChunks].
  void run_count(Context* ctx, const Call& call, int64_t member, int64_t* counts) const {
    const int64_t dims[1] = {kChunks};
    run(count, ctx, call, member, {{counts, dims}});
  }
};

// Marks a result that has overflowed, and makes its values NaN. A pattern overflows if it has more entries than its
// capacity, so that some are missing. A source is an operand's pattern. If a source has overflowed, the result lacks
// entries as well. The count of the source, which exceeds the result's capacity, is then stored as the result's count.
struct Overflow {
  bool has_nan, has_source;
  int64_t nan;  // its bytes
  int64_t array, capacity;
  size_t source;  // buffer of the source's count, 0 if it has not overflowed

  template <class Index>
  int64_t marked(const IndexArray& pointers, int64_t count) const {
    auto* const p = static_cast<Index*>(pointers.data);
    const int64_t n = pointers.length;
    // Pointers must not decrease, so all that equal the last one rise with it, but for the first one of several.
    const Index end = p[n - 1];
    for (int64_t at = n - 1; count > end && at >= std::min<int64_t>(1, n - 1) && p[at] == end; --at) {
      p[at] = static_cast<Index>(count);
    }
    return p[n - 1];
  }

  // Marks the index arrays of a member. Returns whether it has overflowed.
  bool mark(const Call& call, const std::vector<IndexArray>& arrays, int64_t member) const {
    if (array < 0 || arrays[static_cast<size_t>(array)].length == 0) return false;
    const IndexArray& pointers = arrays[static_cast<size_t>(array)];
    const char* const given = has_source ? call.at(source, member, call.index_bytes()) : nullptr;
    if (call.params.wide) {
      return marked<int64_t>(pointers, given ? *reinterpret_cast<const int64_t*>(given) : 0) > capacity;
    }
    return marked<int32_t>(pointers, given ? *reinterpret_cast<const int32_t*>(given) : 0) > capacity;
  }

  // Replaces values by NaN, if they have it.
  void poison(char* values, int64_t count, int64_t bytes) const {
    for (int64_t n = 0; has_nan && n < count; ++n) std::memcpy(values + n * bytes, &nan, static_cast<size_t>(bytes));
  }
};

struct Table {
  int64_t value_bytes;
  Overflow overflow;
  std::vector<Term> terms;
  size_t results;  // first buffer after the factors and arrays

  // `first` is the first buffer after the table.
  static Table read(const int64_t* table, size_t first) {
    const Overflow overflow{table[2] != 0, table[4] != 0, table[3], table[5], table[6], first};
    first += overflow.has_source ? 1 : 0;
    Table found{table[1], overflow, {}, first + static_cast<size_t>(table[0])};
    const int64_t* at = table + kTableHead;
    for (int64_t n = 0; n < table[7]; ++n, at += 3 + at[2]) {
      found.terms.push_back({reinterpret_cast<Kernel>(at[0]), reinterpret_cast<Kernel>(at[1]), first,
                             static_cast<size_t>(table[0]), found.results, {at + 3, at + 3 + at[2]}});
      found.results += static_cast<size_t>(at[2]);
    }
    return found;
  }
};

// Runs a routine that has its parameters in buffer 0 and its table of terms in buffer 1. It calls f(context, call,
// table, member) for each member of the batch. `f` throws KernelError, or another exception if there is no memory.
// `refusal` returns null, or the reason why a format is not supported.
template <class F>
int run_terms(Context* ctx, void* const* buffers, const int64_t* const* dims, const char* no_memory,
              const char* (*refusal)(const Layout&), const F& f) {
  try {
    Params params;
    ctx->error = params.read(static_cast<const int64_t*>(buffers[0]), dims[0][0], false);
    if (ctx->error == nullptr) ctx->error = refusal(params.layout);
    if (ctx->error != nullptr) return 1;
    const Table table = Table::read(static_cast<const int64_t*>(buffers[1]), 2);
    const Call call{params, buffers, dims};
    run_batch(ctx, params.batch, [&](Context* inner, int64_t member) { f(inner, call, table, member); });
    return 0;
  } catch (const KernelError& error) {
    ctx->error = error.reason;
    return 2;
  } catch (const std::exception&) {
    ctx->error = no_memory;
    return 2;
  }
}

}  // namespace jsparse
