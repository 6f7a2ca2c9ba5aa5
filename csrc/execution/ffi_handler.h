// The XLA FFI target `jsparse_kernel`.
#pragma once

#include <string>
#include <vector>

#include "execution/call_table.h"
#include "xla/ffi/api/c_api.h"

namespace jsparse {

// The version of XLA's FFI that the handler uses, and reports.
inline constexpr int kFfiMajor = 0, kFfiMinor = 1;

// Serves the stages instantiate and execute.
extern "C" XLA_FFI_Error* jsparse_handler(XLA_FFI_CallFrame* frame);

// A call that is not bound, with the attributes that its program states.
struct Missing {
  std::string key, recipe, bound;
  std::string carried;             // the patterns that an exported program carries
  std::vector<BoundArray> arrays;  // their index arrays
  bool runs = false;               // whether these are known, which they are not before the program runs
};

// Asks Python to bind a call, and takes the GIL for that. Returns a handle on it, or null if it is not bound; then
// `error` is the reason if that failed, or if there is no resolver.
Entry* resolve(const Missing& call, std::string* error);

}  // namespace jsparse
