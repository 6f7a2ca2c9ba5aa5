// The independent problems of one call of a routine, and where the buffers of each lie.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <vector>

#include "assemble.h"
#include "params.h"
#include "workers.h"

namespace jsparse {

struct Call {
  const Params& params;
  void* const* buffers;
  const int64_t* const* dims;

  int64_t length(size_t b) const { return dims[b][params.batched ? 1 : 0]; }
  char* at(size_t b, int64_t problem, int64_t size) const { return static_cast<char*>(buffers[b]) + problem * size; }
  int64_t place_bytes() const { return params.wide_places ? 8 : 4; }
  int64_t index_bytes() const { return params.wide ? 8 : 4; }

  // The index arrays of a problem from buffer `first` on, which is moved behind them.
  std::vector<IndexArray> arrays(size_t* first, int64_t problem) const {
    std::vector<IndexArray> found;
    for (const LevelOf& level : params.layout.levels) {
      for (int64_t n = level.kind == kDense ? 0 : level.kind == kCompressed ? 2 : 1; n > 0; --n) {
        found.push_back({at(*first, problem, length(*first) * index_bytes()), length(*first)});
        ++*first;
      }
    }
    return found;
  }
};

// Slots that the index arrays have room for, at most nse.
inline int64_t slots_with_room(const Params& params, const std::vector<IndexArray>& arrays) {
  const int core = params.layout.core();
  int64_t room = core > 0 ? arrays.back().length : 1;
  for (int l = core; l < params.layout.count(); ++l) {
    if (__builtin_mul_overflow(room, params.layout.at(l).size, &room)) return params.nse;
  }
  return std::min(room, params.nse);
}

// keys[l] = the row of level l's dimension
inline std::vector<Key> keys_of(const Layout& layout, const char* rows, bool wide, int64_t n) {
  std::vector<Key> keys;
  for (const LevelOf& level : layout.levels) keys.push_back({rows + level.dim * n * (wide ? 8 : 4), wide, level.size});
  return keys;
}

// What is thrown where a kernel failed and said why; the text outlives the kernel's call.
struct KernelError : std::exception {
  explicit KernelError(const char* reason) : reason(reason) {}
  const char* what() const noexcept override { return reason; }
  const char* const reason;
};

// f(context, problem) for each: one problem has all threads, several have one each. It throws KernelError, or for a lack
// of memory anything else.
template <class F>
void run_problems(Context* ctx, int64_t count, const F& f) {
  if (count == 1) return f(ctx, int64_t{0});
  std::atomic<bool> failed{false};
  std::atomic<const char*> reason{nullptr};
  each(ctx, count, [&](int64_t problem) {
    try {
      Context serial = serial_context();
      f(&serial, problem);
    } catch (const KernelError& error) {
      reason.store(error.reason, std::memory_order_relaxed);
    } catch (const std::exception&) {
      failed.store(true, std::memory_order_relaxed);
    }
  });
  if (reason.load() != nullptr) throw KernelError(reason.load());
  if (failed.load()) throw std::bad_alloc();
}

}  // namespace jsparse
