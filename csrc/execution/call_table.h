// The table of calls: which kernel a key stands for, and which arrays are bound to it.
//
// Executing programs look calls up from any thread, without a lock and without the GIL. Everything else (binding,
// retiring, freeing) happens under the GIL, because entries own Python references. The table's mutex is a leaf: no
// Python code runs and no Python reference is dropped while it is locked, so no thread that has locked it waits for the
// GIL.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/abi.h"
#include "kernel/signature.h"

namespace jsparse {

struct BoundArray {
  void* data;
  int64_t element;  // see signature.h
  std::vector<int64_t> dims;

  BufferShape shape() const { return {element, static_cast<int64_t>(dims.size()), dims.data()}; }
};

// A call. Once published, only the fields that the mutex guards change.
struct Entry {
  std::string key;
  std::string recipe, bound_names;  // of the KernelCall (compiler/runtime/kernel_call.py), for profiles
  Kernel kernel = nullptr;
  std::vector<int64_t> slots;
  int64_t operands = 0;  // minimum number of arguments and results of the call
  int64_t results = -1;  // how many of exactly `operands` are results; -1 if only their minimum is known
  std::vector<BoundArray> bound;
  Signature signature;  // of the kernel's buffers, in the order of `slots`

  std::vector<pybind11::object> alive;  // keeps the kernel's library and the bound arrays alive

  size_t hash = 0;
  int64_t handles = 0;    // guarded by the mutex
  bool pinned = false;    // guarded by the mutex
  Entry* next = nullptr;  // guarded by the mutex: in the list of retired entries
};

// While a reader exists, no entry found through find() is freed. A reader costs two uncontended atomic operations.
class Reader {
 public:
  Reader();
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const Entry* find(std::string_view key) const;
};

// Returns the entry of a key, which then has one more handle, or null. Any thread may call it.
Entry* acquire(std::string_view key);

// Releases a handle as `release` does. Any thread may call it. The interpreter frees a retired call soon.
void release_on_any_thread(Entry* entry) noexcept;

// Callers of all functions below hold the GIL.

// Publishes `entry`. If its key is already in the table, `entry` is dropped and the existing one is taken. The returned
// entry has one more handle. If there is no memory, it throws, and nothing has changed.
Entry* bind(std::unique_ptr<Entry> entry, bool pin);

// Releases a handle. The last one retires the call, unless it is pinned.
void release(Entry* entry) noexcept;

// Keeps a call forever.
void pin(Entry* entry) noexcept;

int64_t live_entries();

}  // namespace jsparse
