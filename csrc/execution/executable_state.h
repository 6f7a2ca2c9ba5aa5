// An executable holds a handle on each of its calls, from the time when XLA instantiates the call until XLA destroys
// the executable. JAX's own references go earlier, when its caches are cleared while a program runs, for example.
#pragma once

#include "execution/call_table.h"
#include "xla/ffi/api/c_api.h"

namespace jsparse {

// Returns whether a call of XLA's API succeeded. We have to destroy the error; its text is not used.
bool succeeded(const XLA_FFI_Api* api, XLA_FFI_Error* error);

// Gives a handle, which may be null, to the executable whose call is being instantiated. Returns false if this version
// of XLA keeps no state; then the caller has the handle still.
bool give_to_executable(const XLA_FFI_CallFrame* frame, Entry* handle);

// Gives a handle to the executable that is running, which got null before. Returns false as above.
bool give_to_running(const XLA_FFI_CallFrame* frame, Entry* handle);

}  // namespace jsparse
