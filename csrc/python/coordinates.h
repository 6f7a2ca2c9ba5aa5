// Functions of the module for index operations that are slow in NumPy and SciPy.
#pragma once

#include <pybind11/pybind11.h>

namespace jsparse {

void define_coordinates(pybind11::module_& m);

}  // namespace jsparse
