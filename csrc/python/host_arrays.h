// Checks and makes the NumPy arrays that the functions of the module take and return.
#pragma once

#include <pybind11/numpy.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "levels/positions.h"
#include "memory/pages.h"

namespace jsparse {

namespace py = pybind11;

inline py::dtype index_type(bool wide) { return wide ? py::dtype::of<int64_t>() : py::dtype::of<int32_t>(); }

// Returns a new vector with the alignment of XLA's buffers, so that it can become such a buffer without a copy.
inline py::array make_array(const py::dtype& type, int64_t n) {
  constexpr size_t kAlign = 64;
  int64_t bytes;
  if (__builtin_mul_overflow(std::max<int64_t>(n, 1), type.itemsize(), &bytes) || bytes > kFar) throw std::bad_alloc();
  if (exceeds_memory(static_cast<size_t>(bytes))) throw std::bad_alloc();
  const size_t room = (static_cast<size_t>(bytes) + kAlign - 1) / kAlign * kAlign;
  std::unique_ptr<void, void (*)(void*)> data(std::aligned_alloc(kAlign, room), std::free);
  if (data == nullptr) throw std::bad_alloc();
  advise_huge_pages(data.get(), static_cast<size_t>(bytes));
  const py::capsule owner(data.get(), [](void* memory) { std::free(memory); });
  return py::array(type, std::vector<py::ssize_t>{n}, std::vector<py::ssize_t>{type.itemsize()}, data.release(), owner);
}

// Returns a new array of zeros, aligned as `make_array` aligns. A large array gets its memory when it is written to. It
// is in huge pages if about `writes` places are written to and small pages for these would take longer.
inline py::array make_zeros(const py::dtype& type, const std::vector<py::ssize_t>& shape, int64_t writes) {
  constexpr size_t kAlign = 64, kSparse = size_t{1} << 17;  // bytes: to clear them takes about as long as a fault
  int64_t bytes = type.itemsize();
  for (const py::ssize_t size : shape) {
    if (__builtin_mul_overflow(bytes, std::max<py::ssize_t>(size, 1), &bytes) || bytes > kFar) throw std::bad_alloc();
  }
  if (exceeds_memory(static_cast<size_t>(bytes))) throw std::bad_alloc();
  const size_t room = static_cast<size_t>(bytes) + kAlign;
  std::unique_ptr<void, void (*)(void*)> data(std::calloc(room, 1), std::free);
  if (data == nullptr) throw std::bad_alloc();
  if (static_cast<size_t>(writes) >= room / kSparse) advise_huge_pages(data.get(), room);
  void* aligned = data.get();
  size_t space = room;
  std::align(kAlign, static_cast<size_t>(bytes), aligned, space);
  const py::capsule owner(data.get(), [](void* memory) { std::free(memory); });
  static_cast<void>(data.release());
  return py::array(type, shape, aligned, owner);
}

inline bool contiguous(const py::array& a) { return (a.flags() & py::array::c_style) != 0; }

// Returns whether a contiguous vector of integers is int64. It throws for types other than int32 and int64, and for
// elements that the machine cannot read as they are.
inline bool is_wide(const py::array& a) {
  if (a.ndim() != 1 || !contiguous(a) || a.dtype().kind() != 'i' || (a.itemsize() != 4 && a.itemsize() != 8)) {
    throw py::type_error("Expected contiguous vectors of int32 or int64, but got " + std::string(py::str(a.dtype())));
  }
  if (a.dtype().byteorder() == '>' || !(a.flags() & py::detail::npy_api::NPY_ARRAY_ALIGNED_)) {
    throw py::type_error("Expected aligned vectors in the machine's byte order");
  }
  return a.itemsize() == 8;
}

}  // namespace jsparse
