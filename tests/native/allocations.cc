// Makes one allocation of the extension fail. It is preloaded, so that it replaces the functions that allocate memory:
// see test_allocations.py. Allocations of other libraries succeed.
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <new>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

uintptr_t first, last;        // the code of the extension
std::atomic<int64_t> seen{0};  // allocations since the last `fail_allocation`
std::atomic<int64_t> failing{0};

bool fails(const void* caller) {
  const auto at = reinterpret_cast<uintptr_t>(caller);
  return at >= first && at < last && seen.fetch_add(1) + 1 == failing.load();
}

void* thrown_unless(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

#define CALLER __builtin_return_address(0)

extern "C" {

void watch_code(uintptr_t begin, uintptr_t end) { first = begin, last = end; }

// From now on, allocation number n fails, if n > 0.
void fail_allocation(int64_t n) { seen.store(0), failing.store(n); }

int64_t allocations() { return seen.load(); }

void* malloc(std::size_t size) { return fails(CALLER) ? errno = ENOMEM, nullptr : __libc_malloc(size); }
void* calloc(std::size_t n, std::size_t size) { return fails(CALLER) ? errno = ENOMEM, nullptr : __libc_calloc(n, size); }
void* aligned_alloc(std::size_t align, std::size_t size) { return fails(CALLER) ? nullptr : __libc_memalign(align, size); }

}  // extern "C"

void* operator new(std::size_t size) { return thrown_unless(fails(CALLER) ? nullptr : __libc_malloc(size)); }
void* operator new[](std::size_t size) { return thrown_unless(fails(CALLER) ? nullptr : __libc_malloc(size)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return fails(CALLER) ? nullptr : __libc_malloc(size); }
void* operator new(std::size_t size, std::align_val_t align, const std::nothrow_t&) noexcept {
  return fails(CALLER) ? nullptr : __libc_memalign(static_cast<std::size_t>(align), size);
}
