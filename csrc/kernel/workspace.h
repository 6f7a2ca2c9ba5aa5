// Memory that a kernel's chunks give back and borrow again. A workspace that is left empty need not be zeroed anew for the
// next chunk, which would take longer than the work on a few entries of a long row.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace jsparse {

// The blocks of one call that nobody uses at present. They are freed at the end of the call.
class SpareMemory {
 public:
  SpareMemory() = default;
  SpareMemory(const SpareMemory&) = delete;
  SpareMemory& operator=(const SpareMemory&) = delete;
  ~SpareMemory();

  // Returns a block of that size, or null if there is none. With `zeros`, all of it is zero.
  void* take(int64_t bytes, bool zeros);

  // Keeps a block for later. Returns false if there is no memory to note it.
  bool keep(void* data, int64_t bytes, bool zeros);

 private:
  struct Block {
    void* data;
    int64_t bytes;
    bool zeros;
  };

  std::mutex mutex_;
  std::vector<Block> blocks_;
};

}  // namespace jsparse
