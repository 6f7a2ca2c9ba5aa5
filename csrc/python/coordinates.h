// Index work that NumPy and SciPy do slowly, as functions of the module.
#pragma once

#include <pybind11/pybind11.h>

namespace jsparse {

void define_coordinates(pybind11::module_& m);

}  // namespace jsparse
