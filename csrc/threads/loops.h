// Loops over functions, on the threads of a Context. A body may run on a thread of XLA while the caller waits, so it is
// noexcept: whatever it needs is allocated before the loop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernel/abi.h"

namespace jsparse {

using std::size_t;

constexpr int64_t kSerial = 1 << 15;  // a loop over fewer entries costs no more than waking a thread

template <class F>
void each(Context* ctx, int64_t n, const F& f) {
  static_assert(std::is_nothrow_invocable_v<const F&, int64_t>, "the body of a chunk is noexcept");
  if (n == 1) return f(int64_t{0});
  const auto body = [](void* arg, int64_t i) noexcept { (*static_cast<const F*>(arg))(i); };
  ctx->parallel_for(ctx, n, body, const_cast<void*>(static_cast<const void*>(&f)));
}

// Returns the number of slices for n entries. There are several per thread, since other work may slow a thread down.
inline int64_t slice_count(const Context* ctx, int64_t n) {
  return n < kSerial || ctx->num_threads <= 1 ? 1 : std::min<int64_t>(4 * ctx->num_threads, 64);
}

inline int64_t slice_begin(int64_t n, int64_t slices, int64_t t) { return n / slices * t + std::min(t, n % slices); }

// Calls f(t, begin, end) for each of the slices of [0, n).
template <class F>
void slices(Context* ctx, int64_t n, int64_t count, const F& f) {
  static_assert(std::is_nothrow_invocable_v<const F&, int64_t, int64_t, int64_t>, "the body of a chunk is noexcept");
  each(ctx, count, [&](int64_t t) noexcept { f(t, slice_begin(n, count, t), slice_begin(n, count, t + 1)); });
}

inline void serial_parallel_for(Context*, int64_t n, Body body, void* arg) noexcept {
  for (int64_t i = 0; i < n; ++i) body(arg, i);
}

// Returns a context without threads. Members of a batch get it if each of them runs on one thread.
inline Context serial_context() {
  Context ctx;
  ctx.parallel_for = serial_parallel_for;
  return ctx;
}

}  // namespace jsparse
