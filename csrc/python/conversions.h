// Conversions of indices on host arrays, as functions of the module.
#pragma once

#include <pybind11/pybind11.h>

namespace jsparse {

void define_conversions(pybind11::module_& m);
void define_values(pybind11::module_& m);
void define_segments(pybind11::module_& m);
void define_selection(pybind11::module_& m);

}  // namespace jsparse
