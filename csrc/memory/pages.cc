#include "memory/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace jsparse {
namespace {

// Below `kLeast`, the allocator has memory at hand. Pages of small blocks are not offered to the system, since they are
// few and a call of the system takes longer than the work on them.
constexpr size_t kLeast = size_t{1} << 14, kSmall = size_t{1} << 20, kLargest = size_t{1} << 28;

struct Block {
  void* data = nullptr;
  size_t bytes = 0;
};

std::mutex& kept_mutex() {
  static auto* mutex = new std::mutex;  // never destroyed: programs may still run while the process ends
  return *mutex;
}

// The blocks that are kept. Each row but the last has blocks of one size, which is a power of two. The last row has the
// larger ones.
constexpr size_t kKept = 4, kSizes = 7;
Block kept[kSizes + 1][kKept];

Block (&kept_like(size_t bytes))[kKept] {
  size_t row = 0;
  while (row < kSizes && bytes > kLeast << row) ++row;
  return kept[row];
}

// Small blocks have few sizes, so that most requests find one.
size_t with_slack(size_t bytes) {
  if (bytes < kLeast || bytes > kSmall) return bytes;
  size_t found = kLeast;
  while (found < bytes) found *= 2;
  return found;
}

// Advises the system about the whole pages of that size, a power of two, in a block. The system extends the advice to its
// own pages, so a smaller size than theirs would reach the memory of others.
void advise(const Block& block, size_t page, int advice) {
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(block.data) + page - 1) & ~uintptr_t{page - 1};
  const uintptr_t end = (reinterpret_cast<uintptr_t>(block.data) + block.bytes) & ~uintptr_t{page - 1};
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

// Allows the system to take the pages and discard their contents until we write to them again.
void offer_pages([[maybe_unused]] const Block& block) {
#if defined(MADV_FREE)
  advise(block, page_bytes(), MADV_FREE);
#endif
}

}  // namespace

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));  // 4, 16 or 64 KiB
  return bytes;
}

int64_t memory_bytes() {
  static const auto pages = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES));
  return pages > 0 ? pages * static_cast<int64_t>(page_bytes()) : INT64_MAX;
}

bool exceeds_memory(size_t bytes) {
  constexpr size_t kEveryMachineHas = size_t{1} << 30;
  return bytes > kEveryMachineHas && bytes > static_cast<uint64_t>(memory_bytes());
}

void* borrow_memory(size_t* bytes) {
  *bytes = with_slack(*bytes);
  if (*bytes >= kLeast) {
    std::lock_guard<std::mutex> lock(kept_mutex());
    Block* best = nullptr;
    for (Block& block : kept_like(*bytes)) {
      const bool fits = block.bytes >= *bytes && block.bytes / 4 <= *bytes;
      if (fits && (best == nullptr || block.bytes < best->bytes)) best = &block;
    }
    if (best != nullptr) {
      *bytes = best->bytes;
      return std::exchange(*best, Block{}).data;
    }
  }
  if (exceeds_memory(*bytes)) return nullptr;
  void* data = std::malloc(*bytes > 0 ? *bytes : 1);
  if (data != nullptr) advise_huge_pages(data, *bytes);
  return data;
}

void return_memory(void* data, size_t bytes) {
  Block block{data, bytes};
  if (data != nullptr && bytes >= kLeast && bytes <= kLargest) {
    if (bytes > kSmall) offer_pages(block);
    std::lock_guard<std::mutex> lock(kept_mutex());
    Block* least = &kept_like(bytes)[0];
    for (Block& other : kept_like(bytes)) {
      if (other.bytes < least->bytes) least = &other;
    }
    if (least->bytes <= bytes) std::swap(*least, block);
  }
  std::free(block.data);
}

void advise_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#if defined(MADV_HUGEPAGE)  // Linux; macOS chooses the size of its pages itself
  constexpr size_t kHugePage = size_t{1} << 21;
  constexpr size_t kWorthwhile = size_t{1} << 23;  // smaller results mostly get pages that were used before
  if (bytes >= kWorthwhile) advise({data, bytes}, kHugePage, MADV_HUGEPAGE);
#endif
}

}  // namespace jsparse
