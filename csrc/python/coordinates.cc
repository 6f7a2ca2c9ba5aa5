#include "python/coordinates.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "execution/host_executor.h"
#include "python/host_arrays.h"
#include "sort/lexsort.h"

namespace py = pybind11;

namespace jsparse {
namespace {

template <class T>
using Array = py::array_t<T, py::array::c_style>;

std::string text(int64_t i) { return std::to_string(i); }

// Returns a contiguous vector of int32 or int64. Other integers are converted to int64.
struct Integers {
  explicit Integers(const py::array& given) {
    const char kind = given.dtype().kind();
    if (given.ndim() != 1 || (kind != 'i' && kind != 'u')) {
      throw py::type_error("Expected a one-dimensional array of integers, but got " + text(given.ndim()) +
                           " dimensions of " + std::string(py::str(given.dtype())));
    }
    wide = !(kind == 'i' && given.itemsize() == 4 && given.dtype().is(py::dtype::of<int32_t>()));
    array = wide ? py::array(py::array_t<int64_t, py::array::c_style | py::array::forcecast>(given))
                 : py::array(py::array_t<int32_t, py::array::c_style | py::array::forcecast>(given));
    n = array.shape(0);
  }

  // Calls f(data) with data of the right type, without the GIL.
  template <class F>
  auto visit(const F& f) const {
    const void* data = array.data();
    py::gil_scoped_release nogil;
    return wide ? f(static_cast<const int64_t*>(data)) : f(static_cast<const int32_t*>(data));
  }

  py::array array;
  bool wide;
  int64_t n;
};

int64_t checked_size(int64_t size) {
  if (size < 0) throw py::value_error("Expected a size of at least 0, but got " + text(size));
  return size;
}

Array<int64_t> lexsort_arrays(const std::vector<py::array>& keys, const std::vector<int64_t>& sizes) {
  if (keys.empty() || keys.size() != sizes.size()) {
    throw py::value_error("Expected one size for each of at least one key, but got " + text(keys.size()) +
                          " keys and " + text(sizes.size()) + " sizes");
  }
  std::vector<Integers> integers;
  std::vector<Key> views;
  for (size_t k = 0; k < keys.size(); ++k) {
    integers.emplace_back(keys[k]);
    const Integers& key = integers.back();
    if (key.n != integers[0].n) {
      throw py::value_error("Expected keys of one length, but got " + text(integers[0].n) + " and " + text(key.n));
    }
    views.push_back({key.array.data(), key.wide, checked_size(sizes[k])});
  }
  Array<int64_t> out(integers[0].n);
  int64_t* data = out.mutable_data();
  int64_t bad;
  {
    py::gil_scoped_release nogil;
    on_host([&](Context* ctx) { bad = lexsort(ctx, views, integers[0].n, data); });
  }
  if (bad >= 0) throw py::value_error("Expected keys within their sizes, but entry " + text(bad) + " is outside");
  return out;
}

// Returns the first entry whose parent is out of range or out of order, or -1.
template <class P>
int64_t unsorted_at(const P* parent, int64_t n, int64_t parents) {
  if (n == 0) return -1;
  P falls = parent[0] < 0 || parent[n - 1] >= parents;
  for (int64_t p = 1; p < n; ++p) falls |= parent[p] < parent[p - 1];
  if (!falls) return -1;
  int64_t p = 0;
  while (parent[p] >= (p == 0 ? 0 : parent[p - 1]) && parent[p] < parents) ++p;
  return p;
}

// Writes the pointers of sorted parents. The last entry of each parent writes the pointer to the parent's end. All
// entries before it write this pointer, too, since a branch for the last ones would often be mispredicted.
template <class P, class T>
void fill_pointers(const P* parent, int64_t n, int64_t parents, T* pointers) {
  std::fill(pointers, pointers + parents + 1, T{0});
  for (int64_t p = 0; p < n; ++p) pointers[parent[p] + 1] = static_cast<T>(p + 1);
  for (int64_t q = 0; q < parents; ++q) pointers[q + 1] = std::max(pointers[q + 1], pointers[q]);
}

template <class T>
py::array compress_to(const Integers& parents_of, int64_t parents) {
  if (parents_of.n > std::numeric_limits<T>::max()) {
    throw py::value_error("Expected pointers to fit their type, but there are " + text(parents_of.n) + " entries");
  }
  py::array out = make_array(py::dtype::of<T>(), parents + 1);
  T* pointers = static_cast<T*>(out.mutable_data());
  const int64_t n = parents_of.n;
  const int64_t bad = parents_of.visit([&](const auto* data) {
    const int64_t found = unsorted_at(data, n, parents);
    if (found < 0) fill_pointers(data, n, parents, pointers);
    return found;
  });
  if (bad >= 0) {
    throw py::value_error("Expected sorted parents in [0, " + text(parents) + "), but entry " + text(bad) + " is not");
  }
  return out;
}

py::array compress(const py::array& sorted_parents, int64_t parents, const py::object& dtype) {
  const Integers parents_of(sorted_parents);
  checked_size(parents);
  const py::dtype type = py::dtype::from_args(dtype);
  if (type.kind() == 'i' && type.itemsize() == 4) return compress_to<int32_t>(parents_of, parents);
  if (type.kind() == 'i' && type.itemsize() == 8) return compress_to<int64_t>(parents_of, parents);
  throw py::type_error("Expected pointers of type int32 or int64, but got " + std::string(py::str(type)));
}

int64_t out_of_range_array(const py::array& keys, int64_t size) {
  const Integers integers(keys);
  checked_size(size);
  return integers.visit([&](const auto* data) { return out_of_range(data, integers.n, size); });
}

}  // namespace

void define_coordinates(py::module_& m) {
  m.def("lexsort", &lexsort_arrays, py::arg("keys"), py::arg("sizes"));
  m.def("compress", &compress, py::arg("sorted_parents"), py::arg("parents"), py::arg("dtype"));
  m.def("out_of_range", &out_of_range_array, py::arg("keys"), py::arg("size"));
}

}  // namespace jsparse
