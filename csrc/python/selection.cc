// The function of the module that selects the entries of segments by slices.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "levels/layout.h"
#include "levels/select.h"
#include "python/conversions.h"
#include "python/host_arrays.h"

namespace jsparse {
namespace {

using Triple = std::array<int64_t, 3>;  // start, step, size

// Returns whether a vector is int64. It throws unless the machine can read the elements of int32 or int64 as they are.
bool is_wide_and_readable(const py::array& array) {
  const bool wide = is_wide(array);
  if (array.dtype().byteorder() == '>' || !(array.flags() & py::detail::npy_api::NPY_ARRAY_ALIGNED_)) {
    throw py::type_error("Expected aligned vectors in the machine's byte order");
  }
  return wide;
}

template <class Index>
Index* data_of(const py::array& array) {
  return static_cast<Index*>(const_cast<void*>(array.data()));
}

[[noreturn]] void refuse(SelectFault fault) {
  switch (fault) {
    case SelectFault::kParents: throw py::value_error("Expected parents that have pointers");
    case SelectFault::kPointers: throw py::value_error("Expected pointers that do not decrease, to positions that have coordinates");
    case SelectFault::kTooMany: throw py::value_error("Expected at most as many entries as the type of the index arrays can count");
    default: throw py::value_error("Expected sorted coordinates in each segment");
  }
}

// Returns the first `count` elements of a vector: the vector itself if it has no more.
py::array shortened(const py::array& array, int64_t count) {
  if (array.shape(0) == count) return array;
  const py::array out = make_array(array.dtype(), count);
  std::memcpy(const_cast<void*>(out.data()), array.data(), static_cast<size_t>(count * array.itemsize()));
  return out;
}

template <class Index>
py::tuple select_as(const py::array& pointers, const std::vector<py::array>& coordinates,
                    const std::vector<Progression>& wanted, const std::optional<py::array>& parents) {
  Segments<Index> in;
  in.pointers = data_of<Index>(pointers);
  in.above = pointers.shape(0) - 1;
  in.positions = coordinates[0].shape(0);
  for (const py::array& array : coordinates) in.coordinates.push_back(data_of<Index>(array));
  in.parents = parents ? data_of<Index>(*parents) : nullptr;
  in.parent_count = parents ? parents->shape(0) : in.above;
  Selecting<Index> selecting(in, wanted);
  const auto without_lock = [](const auto& work) {
    py::gil_scoped_release nogil;
    return work();
  };
  SelectFault fault = without_lock([&] { return selecting.narrow(); });
  if (fault != SelectFault::kNone) refuse(fault);
  const py::dtype type = index_type(sizeof(Index) == 8);
  const py::array ends = make_array(type, in.parent_count + 1), positions = make_array(type, selecting.most());
  std::vector<py::array> made;
  std::vector<Index*> to;
  for (size_t l = 0; l < coordinates.size(); ++l) {
    made.push_back(make_array(type, selecting.most()));
    to.push_back(data_of<Index>(made.back()));
  }
  int64_t count = 0;
  fault = without_lock([&] { return selecting.write(data_of<Index>(ends), to, data_of<Index>(positions), &count); });
  if (fault != SelectFault::kNone) refuse(fault);
  py::list kept;
  for (const py::array& array : made) kept.append(shortened(array, count));
  return py::make_tuple(ends, kept, shortened(positions, count));
}

py::tuple select_segments(const py::array& pointers, const std::vector<py::array>& coordinates,
                          const std::vector<Triple>& slices, const std::optional<py::array>& parents) {
  const bool wide = is_wide_and_readable(pointers);
  if (pointers.shape(0) == 0) throw py::value_error("Expected at least one pointer");
  if (coordinates.empty() || coordinates.size() > kMaxLevels || coordinates.size() != slices.size()) {
    throw py::value_error("Expected coordinates of 1 to 64 levels, and a slice for each level");
  }
  for (const py::array& array : coordinates) {
    if (is_wide_and_readable(array) != wide) throw py::type_error("Expected index arrays of one type");
    if (array.shape(0) != coordinates[0].shape(0)) throw py::value_error("Expected coordinates of one length");
  }
  if (parents && is_wide_and_readable(*parents) != wide) throw py::type_error("Expected index arrays of one type");
  std::vector<Progression> wanted;
  const int64_t most = wide ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int32_t>::max();
  for (const Triple& slice : slices) {
    wanted.push_back({slice[0], slice[1], slice[2]});
    if (!wanted.back().fits(most)) throw py::value_error("Expected slices of coordinates that fit the index arrays");
  }
  return wide ? select_as<int64_t>(pointers, coordinates, wanted, parents)
              : select_as<int32_t>(pointers, coordinates, wanted, parents);
}

}  // namespace

void define_selection(py::module_& m) {
  m.def("select_segments", &select_segments, py::arg("pointers"), py::arg("coordinates"), py::arg("slices"),
        py::arg("parents") = py::none());
}

}  // namespace jsparse
