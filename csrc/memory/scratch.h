// Temporary arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "memory/pages.h"

namespace jsparse {

// An array of n elements, which are not initialised. The destructor frees it.
template <class T>
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(int64_t n) {
    if (__builtin_mul_overflow(n, sizeof(T), &bytes_)) throw std::bad_alloc();
    data_ = static_cast<T*>(borrow_memory(&bytes_));
    if (data_ == nullptr) throw std::bad_alloc();
  }
  Scratch(Scratch&& other) noexcept { swap(other); }
  Scratch& operator=(Scratch&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Scratch() {
    if (data_ != nullptr) return_memory(data_, bytes_);
  }

  T* get() const { return data_; }
  T& operator[](int64_t i) const { return data_[i]; }

 private:
  void swap(Scratch& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
  }

  std::size_t bytes_ = 0;
  T* data_ = nullptr;
};

}  // namespace jsparse
