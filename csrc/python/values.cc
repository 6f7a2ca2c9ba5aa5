// Functions of values on host arrays: the elements of a dense array that are not zero, permutations, and the images
// from which digests are made.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "arrays/fingerprint.h"
#include "arrays/nonzero.h"
#include "execution/host_executor.h"
#include "python/conversions.h"
#include "python/host_arrays.h"
#include "sort/key.h"

namespace jsparse {
namespace {

struct Sixteen {
  uint64_t a, b;
};

// Calls f with an item of that size. Returns false if there is none.
template <class F>
bool for_items(int64_t bytes, const F& f) {
  if (bytes == 1) f(uint8_t{});
  else if (bytes == 2) f(uint16_t{});
  else if (bytes == 4) f(uint32_t{});
  else if (bytes == 8) f(uint64_t{});
  else if (bytes == 16) f(Sixteen{});
  else return false;
  return true;
}

Element element_of(const py::array& x, const std::string& kind) {
  const bool complex = kind == "complex";
  const Element element{x.itemsize() / (complex ? 2 : 1), complex ? 2 : 1, kind != "integer"};
  if (!element.known() || !contiguous(x)) throw py::type_error("Expected contiguous elements of 1 to 16 bytes");
  return element;
}

// Returns pointers, columns and values of the nonzero elements of `rows` rows. Rows may have length 0.
template <class Index>
py::tuple compress_rows(const py::array& x, const Element& element, int64_t rows) {
  const int64_t width = rows == 0 ? 0 : x.size() / rows, size = element.size();
  const auto* data = static_cast<const char*>(x.data());
  const py::array pointers = make_array(py::dtype::of<Index>(), rows + 1);
  auto* starts = static_cast<Index*>(const_cast<void*>(pointers.data()));
  const int64_t parts = x.size() < kSerial ? 1 : std::min<int64_t>(std::max<int64_t>(rows, 1), 8 * hardware_threads());
  {
    py::gil_scoped_release nogil;
    on_host([&](Context* ctx) {
      slices(ctx, rows, parts, [&](int64_t, int64_t begin, int64_t end) noexcept {
        for (int64_t r = begin; r < end; ++r) {
          starts[r + 1] = static_cast<Index>(count_nonzero(element, data + r * width * size, width));
        }
      });
    });
    starts[0] = 0;
    for (int64_t r = 0; r < rows; ++r) starts[r + 1] += starts[r];
  }
  const int64_t count = starts[rows];
  const py::array columns = make_array(py::dtype::of<Index>(), count), values = make_array(x.dtype(), count);
  auto* to = static_cast<Index*>(const_cast<void*>(columns.data()));
  auto* kept = static_cast<char*>(const_cast<void*>(values.data()));
  const auto fill = [&](auto item) {
    using Item = decltype(item);
    py::gil_scoped_release nogil;
    on_host([&](Context* ctx) {
      slices(ctx, rows, parts, [&](int64_t, int64_t begin, int64_t end) noexcept {
        for (int64_t r = begin; r < end; ++r) {
          int64_t at = starts[r];
          const auto* row = reinterpret_cast<const Item*>(data) + r * width;
          for_nonzero(element, row, width, [&](int64_t first, uint64_t mask) {
            for (; mask != 0; mask &= mask - 1, ++at) {
              const int64_t c = first + __builtin_ctzll(mask);
              to[at] = static_cast<Index>(c);
              std::memcpy(kept + at * static_cast<int64_t>(sizeof(Item)), row + c, sizeof(Item));
            }
          });
        }
      });
    });
  };
  for_items(size, fill);
  return py::make_tuple(pointers, columns, values);
}

py::tuple compress_dense(const py::array& x, int64_t rows, const std::string& kind, bool wide) {
  const Element element = element_of(x, kind);
  if (rows < 0 || (rows == 0 ? x.size() != 0 : x.size() % rows != 0)) throw py::value_error("Expected whole rows");
  return wide ? compress_rows<int64_t>(x, element, rows) : compress_rows<int32_t>(x, element, rows);
}

// Returns values[indices[i]] for each i, or zero if the index is negative.
template <class Item, class Index>
void take_items(Context* ctx, const Item* values, const Index* indices, int64_t n, Item* out) {
  constexpr int64_t kAhead = 32, kPerEntry = 16;  // so many elements take as long as an entry of other loops
  slices(ctx, n, slice_count(ctx, n / kPerEntry), [&](int64_t, int64_t begin, int64_t end) noexcept {
    for (int64_t i = begin; i < end; ++i) {
      if (i + kAhead < end) __builtin_prefetch(values + indices[i + kAhead]);
      out[i] = indices[i] < 0 ? Item{} : values[indices[i]];
    }
  });
}

py::array take(const py::array& values, const py::array& indices) {
  const bool wide = is_wide(indices);
  if (values.ndim() != 1 || !contiguous(values)) throw py::value_error("Expected a contiguous vector of values");
  const int64_t n = indices.shape(0), size = values.shape(0);
  const py::array out = make_array(values.dtype(), n);
  const void* from = values.data();
  void* to = const_cast<void*>(out.data());
  const void* at = indices.data();
  const py::ssize_t bytes = values.itemsize();
  bool ok = true;
  {
    py::gil_scoped_release nogil;
    on_host([&](Context* ctx) {
      const auto with = [&](const auto* index) {
        for (int64_t i = 0; i < n; ++i) ok &= index[i] < size;
        if (!ok) return;
        ok = for_items(bytes, [&](auto item) {
          using Item = decltype(item);
          take_items(ctx, static_cast<const Item*>(from), index, n, static_cast<Item*>(to));
        });
      };
      if (wide) with(static_cast<const int64_t*>(at));
      else with(static_cast<const int32_t*>(at));
    });
  }
  if (!ok) throw py::value_error("Expected indices below " + std::to_string(size) + " and items of up to 16 bytes");
  return out;
}

// Returns an array `out` of the indices' type with out[indices[i]] = i, and -1 in all other elements. The indices are
// distinct.
py::array invert(const py::array& indices, int64_t size) {
  const bool wide = is_wide(indices);
  const int64_t n = indices.shape(0);
  const py::array out = make_array(index_type(wide), size);
  void* to = const_cast<void*>(out.data());
  const void* at = indices.data();
  bool ok = true;
  {
    py::gil_scoped_release nogil;
    const auto with = [&](const auto* index, auto* inverse) {
      using Index = std::remove_reference_t<decltype(*inverse)>;
      for (int64_t i = 0; i < n; ++i) ok &= index[i] < size;
      if (!ok) return;
      on_host([&](Context* ctx) {
        if (size > n) std::memset(inverse, 0xff, static_cast<size_t>(size) * sizeof(Index));
        slices(ctx, n, slice_count(ctx, n), [&](int64_t, int64_t begin, int64_t end) noexcept {
          for (int64_t i = begin; i < end; ++i) {
            if (index[i] >= 0) inverse[index[i]] = static_cast<Index>(i);
          }
        });
      });
    };
    if (wide) with(static_cast<const int64_t*>(at), static_cast<int64_t*>(to));
    else with(static_cast<const int32_t*>(at), static_cast<int32_t*>(to));
  }
  if (!ok) throw py::value_error("Expected indices below " + std::to_string(size));
  return out;
}

// Writes values[i] to the element of `out` at the i-th point. Points outside the array are left out.
template <class Item>
void scatter_items(Context* ctx, const std::vector<Key>& points, const std::vector<int64_t>& strides, const Item* values,
                   int64_t n, Item* out) {
  constexpr int64_t kBlock = 256, kPerEntry = 4, kAhead = 16;
  slices(ctx, n, slice_count(ctx, n / kPerEntry), [&](int64_t, int64_t begin, int64_t end) noexcept {
    int64_t offset[kBlock];
    for (int64_t first = begin; first < end; first += kBlock) {
      const int64_t count = std::min(kBlock, end - first);
      std::fill_n(offset, count, 0);
      for (size_t d = 0; d < points.size(); ++d) {
        const auto add = [&](const auto* from) {
          const int64_t stride = strides[d];
          const auto size = static_cast<uint64_t>(points[d].size);
          for (int64_t i = 0; i < count; ++i) {
            const auto c = static_cast<int64_t>(from[first + i]);
            const bool inside = static_cast<uint64_t>(c) < size && offset[i] >= 0;
            offset[i] = inside ? offset[i] + c * stride : -1;
          }
        };
        if (points[d].wide) add(static_cast<const int64_t*>(points[d].data));
        else add(static_cast<const int32_t*>(points[d].data));
      }
      for (int64_t i = 0; i < count; ++i) {
        if (i + kAhead < count && offset[i + kAhead] >= 0) __builtin_prefetch(out + offset[i + kAhead], 1);
        if (offset[i] >= 0) out[offset[i]] = values[first + i];
      }
    }
  });
}

py::array scatter(const std::vector<py::array>& points, const std::vector<py::ssize_t>& shape, const py::array& values) {
  if (points.empty() || points.size() != shape.size()) throw py::value_error("Expected a vector for each of the dimensions");
  if (values.ndim() != 1 || !contiguous(values)) throw py::value_error("Expected a contiguous vector of values");
  const int64_t n = values.shape(0);
  const py::array out = make_zeros(values.dtype(), shape, n);
  std::vector<Key> keys;
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * shape[d];
  for (size_t d = 0; d < points.size(); ++d) {
    keys.push_back({points[d].data(), is_wide(points[d]), shape[d]});
    if (points[d].shape(0) != n) throw py::value_error("Expected a value for each point");
  }
  const void* from = values.data();
  void* to = const_cast<void*>(out.data());
  const bool ok = for_items(values.itemsize(), [&](auto item) {
    using Item = decltype(item);
    py::gil_scoped_release nogil;
    on_host([&](Context* ctx) {
      scatter_items(ctx, keys, strides, static_cast<const Item*>(from), n, static_cast<Item*>(to));
    });
  });
  if (!ok) throw py::value_error("Expected items of up to 16 bytes");
  return out;
}

py::bytes image_of(const py::array& x) {
  if (!contiguous(x)) throw py::value_error("Expected a contiguous array");
  const int64_t bytes = x.nbytes();
  std::string out(static_cast<size_t>(image_blocks(bytes) * kImageBytes), '\0');
  const auto* data = static_cast<const uint8_t*>(x.data());
  {
    py::gil_scoped_release nogil;
    on_host([&](Context* ctx) { image(ctx, data, bytes, reinterpret_cast<uint8_t*>(out.data())); });
  }
  return py::bytes(out);
}

}  // namespace

void define_values(py::module_& m) {
  m.def("compress_dense", &compress_dense, py::arg("x"), py::arg("rows"), py::arg("kind"), py::arg("wide"));
  m.def("take", &take, py::arg("values"), py::arg("indices"));
  m.def("scatter", &scatter, py::arg("points"), py::arg("shape"), py::arg("values"));
  m.def("invert", &invert, py::arg("indices"), py::arg("size"));
  m.def("image", &image_of, py::arg("x"));
}

}  // namespace jsparse
