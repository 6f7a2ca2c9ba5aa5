// The XLA FFI target `jsparse_kernel`.
#pragma once

#include <string>

#include "xla/ffi/api/c_api.h"

namespace jsparse {

// The version of XLA's FFI that the handler uses, and reports.
inline constexpr int kFfiMajor = 0, kFfiMinor = 1;

// Serves the stages instantiate and execute.
extern "C" XLA_FFI_Error* jsparse_handler(XLA_FFI_CallFrame* frame);

// Asks Python to bind `key`, and takes the GIL for that. Returns false and writes the reason to `error` if that fails,
// or if there is no resolver.
bool resolve(const std::string& key, const std::string& recipe, const std::string& bound, std::string* error);

}  // namespace jsparse
