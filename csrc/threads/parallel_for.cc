#include "threads/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#include "threads/wait.h"

namespace jsparse {
namespace {

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// One loop. The caller and its helpers share it, and `refs` counts them, because a helper may start long after the loop
// has ended. Such a helper finds no chunk, and only drops its reference.
struct Region {
  const int64_t n;
  const Body body;
  void* const arg;
  std::atomic<int64_t> refs;
  alignas(64) std::atomic<int64_t> next{0};  // first unclaimed chunk
  alignas(64) std::atomic<int64_t> done{0};  // number of finished chunks
  std::atomic<bool> asleep{false};           // the caller waits on `finished`
  std::mutex mutex;
  std::condition_variable finished;

  Region(int64_t n, Body body, void* arg, int64_t refs) : n(n), body(body), arg(arg), refs(refs) {}

  // Claims chunks until none is left.
  void work() {
    int64_t mine = 0;
    for (int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < n; ++mine) body(arg, i);
    if (mine == 0) return;
    // This and the caller's store to `asleep` are sequentially consistent: either this thread sees that the caller
    // sleeps, or the caller sees this thread's count. The release half publishes what the chunks wrote.
    if (done.fetch_add(mine, std::memory_order_seq_cst) + mine == n && asleep.load(std::memory_order_seq_cst)) {
      std::lock_guard<std::mutex> lock(mutex);
      finished.notify_one();
    }
  }

  bool complete() const { return done.load(std::memory_order_seq_cst) == n; }

  // Waits only for chunks that a running thread has claimed, never for a helper to start. So there is no deadlock if
  // every thread of a pool waits in such a loop: no helper starts then, but each caller finishes its own loop.
  void wait() {
    for (int spin = 0; spin < 4000; ++spin) {  // spins for about 50 us, which is longer than a wake-up takes
      if (complete()) return;
      pause();
    }
    std::unique_lock<std::mutex> lock(mutex);
    asleep.store(true, std::memory_order_seq_cst);
    wait_until(finished, lock, [this] { return complete(); });
  }

  void drop(int64_t count) {
    if (refs.fetch_sub(count, std::memory_order_acq_rel) == count) delete this;
  }
};

void help(void* data) {
  auto* region = static_cast<Region*>(data);
  region->work();
  region->drop(1);
}

}  // namespace

void parallel_for(int64_t n, int64_t threads, Body body, void* arg, Launch launch, void* pool) noexcept {
  const int64_t helpers = std::min(n, threads) - 1;
  Region* region = helpers > 0 ? new (std::nothrow) Region(n, body, arg, helpers + 1) : nullptr;
  if (region == nullptr) {
    for (int64_t i = 0; i < n; ++i) body(arg, i);
    return;
  }
  int64_t unused = 1;  // the caller's reference, and those of helpers that the pool did not take
  for (int64_t h = 0; h < helpers; ++h) unused += launch(pool, help, region) ? 0 : 1;
  region->work();
  region->wait();
  region->drop(unused);
}

}  // namespace jsparse
