// The batch of one call of a routine. Its members are independent, and each one has its own part of the buffers.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <vector>

#include "assembly/assemble.h"
#include "routines/params.h"
#include "threads/loops.h"

namespace jsparse {

struct Call {
  const Params& params;
  void* const* buffers;
  const int64_t* const* dims;

  int64_t length(size_t b) const { return dims[b][params.batched ? 1 : 0]; }
  char* at(size_t b, int64_t member, int64_t size) const { return static_cast<char*>(buffers[b]) + member * size; }
  int64_t slot_bytes() const { return params.wide_slots ? 8 : 4; }
  int64_t index_bytes() const { return params.wide ? 8 : 4; }

  // Returns the index arrays of a member. They begin at buffer `first`, which becomes the number of the buffer after
  // them.
  std::vector<IndexArray> arrays(size_t* first, int64_t member) const {
    std::vector<IndexArray> found;
    for (const LevelOf& level : params.layout.levels) {
      for (int n = level.traits().arrays(); n > 0; --n) {
        found.push_back({at(*first, member, length(*first) * index_bytes()), length(*first)});
        ++*first;
      }
    }
    return found;
  }
};

// Returns the number of slots that the index arrays can store, at most nse. A range level stores nothing for a
// position, so only nse limits the number of its positions.
inline int64_t slots_with_room(const Params& params, const std::vector<IndexArray>& arrays) {
  const int core = params.layout.core();
  int64_t inner = 1;
  for (int l = core; l < params.layout.count(); ++l) {
    if (__builtin_mul_overflow(inner, params.layout.at(l).size, &inner)) return params.nse;
  }
  if (core == 0) return std::min(inner, params.nse);
  const bool counted = params.layout.at(core - 1).traits().coordinates;
  const int64_t positions = counted ? arrays.back().length : inner > 0 ? params.nse / inner : 0;
  int64_t room;
  return __builtin_mul_overflow(positions, inner, &room) ? params.nse : std::min(room, params.nse);
}

// Returns the keys of a sort: keys[l] is the row of level l's dimension.
inline std::vector<Key> keys_of(const Layout& layout, const char* rows, bool wide, int64_t n) {
  std::vector<Key> keys;
  for (const LevelOf& level : layout.levels) keys.push_back({rows + level.dim * n * (wide ? 8 : 4), wide, level.size});
  return keys;
}

// The failure of a kernel that has set an error message. The text outlives the kernel's call.
struct KernelError : std::exception {
  explicit KernelError(const char* reason) : reason(reason) {}
  const char* what() const noexcept override { return reason; }
  const char* const reason;
};

// Calls f(context, member) for each member. A single member gets all threads; several members get one thread each. It
// throws KernelError, or another exception if there is no memory.
template <class F>
void run_batch(Context* ctx, int64_t count, const F& f) {
  if (count == 1) return f(ctx, int64_t{0});
  std::atomic<bool> failed{false};
  std::atomic<const char*> reason{nullptr};
  each(ctx, count, [&](int64_t member) noexcept {
    try {
      Context serial = serial_context();
      f(&serial, member);
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
