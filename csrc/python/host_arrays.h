// Checks and makes the NumPy arrays that the functions of the module take and return.
#pragma once

#include <pybind11/numpy.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "memory/pages.h"

namespace jsparse {

namespace py = pybind11;

inline py::dtype index_type(bool wide) { return wide ? py::dtype::of<int64_t>() : py::dtype::of<int32_t>(); }

// Returns a new vector with the alignment of XLA's buffers, so that it can become such a buffer without a copy.
inline py::array make_array(const py::dtype& type, int64_t n) {
  constexpr size_t kAlign = 64;
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(n, 1)) * static_cast<size_t>(type.itemsize());
  void* data = std::aligned_alloc(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
  if (data == nullptr) throw std::bad_alloc();
  advise_huge_pages(data, bytes);
  const py::capsule owner(data, [](void* memory) { std::free(memory); });
  return py::array(type, std::vector<py::ssize_t>{n}, std::vector<py::ssize_t>{type.itemsize()}, data, owner);
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
