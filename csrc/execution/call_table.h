// The table of calls: which kernel a key stands for, and which arrays are bound to it.
//
// Executing programs look calls up from any thread, without a lock and without the GIL. Everything else (binding,
// retiring, freeing) happens with the GIL held, because entries own Python references. The table's mutex is a leaf: no
// Python code runs and no Python reference is dropped while it is held, so it is never held by somebody who waits for
// the GIL.
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

// A call. Once published, only the two fields that the mutex guards change.
struct Entry {
  std::string key;
  Kernel kernel = nullptr;
  std::vector<int64_t> slots;
  int64_t operands = 0;  // the least number of arguments and results of the call
  std::vector<BoundArray> bound;
  Signature signature;  // of the kernel's buffers, in the order of `slots`

  std::vector<pybind11::object> alive;  // the kernel's library and the bound arrays

  size_t hash = 0;
  int64_t handles = 0;  // guarded by the mutex
  bool pinned = false;  // guarded by the mutex
};

// While one exists, no entry found through find() is freed. Cheap: two uncontended atomic operations.
class Reader {
 public:
  Reader();
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  const Entry* find(std::string_view key) const;
};

// Callers of all functions below hold the GIL.

// Publishes `entry`, or, if its key is known, drops it in favour of the one there. The result has one handle more.
Entry* bind(std::unique_ptr<Entry> entry, bool pin);

// The entry of a key with one handle more, or null.
Entry* acquire(std::string_view key);

// Gives a handle back; with the last one the call is retired, unless it is pinned.
void release(Entry* entry);

int64_t live_entries();

}  // namespace jsparse
