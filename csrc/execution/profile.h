// Counts of the kernels that run, for jsparse.profile. Nothing is counted unless a profile is open: a kernel's call then
// costs one relaxed load.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/signature.h"

namespace jsparse {

namespace profile_detail {
inline std::atomic<int64_t> open{0};  // the number of open profiles
}

inline bool profiling() { return profile_detail::open.load(std::memory_order_relaxed) != 0; }

// What ran with buffers of these types and shapes.
struct Counted {
  std::string recipe, bound;
  std::vector<int64_t> buffers;  // of each: element (see signature.h), rank, dims
  int64_t calls = 0;
  int64_t nanoseconds = 0;  // from the start of the kernel to its end, summed over calls
};

void open_profile();

// Forgets all counts if no other profile is open.
void close_profile();

// Returns what was counted since the first of the open profiles was opened.
std::vector<Counted> counted();

// Times the call of a kernel from its construction to `stop`, if a profile is open.
class Stopwatch {
 public:
  Stopwatch() {
    if (profiling()) start_ = now();
  }

  bool running() const { return start_ != 0; }

  // Counts the call. If there is no memory, it is not counted.
  void stop(std::string_view recipe, std::string_view bound, const BufferShape* buffers, size_t count) const noexcept;

 private:
  static int64_t now() {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  }

  int64_t start_ = 0;
};

}  // namespace jsparse
