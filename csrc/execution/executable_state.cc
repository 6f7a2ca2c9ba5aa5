// The structs below have another layout in each of three versions of XLA's API. The header declares one of them, that of
// the jaxlib at compile time. So this file declares all three, and chooses by the version that it finds at run time.
#include "execution/executable_state.h"

#include <atomic>
#include <mutex>
#include <new>
#include <string_view>
#include <type_traits>

namespace jsparse {

bool succeeded(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  if (error == nullptr) return true;
  XLA_FFI_Error_Destroy_Args args{};
  args.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  args.error = error;
  api->XLA_FFI_Error_Destroy(&args);
  return false;
}

namespace {

using Extension = std::remove_pointer_t<decltype(XLA_FFI_CallFrame::extension_start)>;
using Context = std::remove_pointer_t<decltype(XLA_FFI_CallFrame::ctx)>;
using Function = XLA_FFI_Error*(void* args);

struct State {
  std::atomic<Entry*> handle;
};

// XLA calls it on any thread.
void destroy(void* state) {
  auto* own = static_cast<State*>(state);
  if (Entry* handle = own->handle.load()) release_on_any_thread(handle);
  delete own;
}

struct TypeId {
  int64_t id = 0;  // 0 asks for a new one
};

struct TypeInfo {
  size_t struct_size = sizeof(TypeInfo);
  Extension* extension = nullptr;
  void (*deleter)(void*) = destroy;
};

struct Register {  // up to minor version 1 without `info`
  size_t struct_size;
  Extension* extension;
  XLA_FFI_ByteSpan name;
  TypeId* type;
  const TypeInfo* info;
};

struct Set1 {
  size_t struct_size;
  Extension* extension;
  Context* ctx;
  TypeId* type;
  void* state;
  void (*deleter)(void*);
};

struct Access2 {  // sets and gets
  size_t struct_size;
  Extension* extension;
  Context* ctx;
  TypeId* type;
  void* state;
};

struct Access3 {
  size_t struct_size;
  Extension* extension;
  Context* ctx;
  XLA_FFI_ExecutionStage stage;
  TypeId* type;
  void* state;
};

template <class F, class Args>
bool call(const XLA_FFI_Api* api, F* function, Args* args) {
  return succeeded(api, reinterpret_cast<Function*>(function)(args));
}

// Returns the type of the state, or null if XLA does not register it.
TypeId* type_of_state(const XLA_FFI_Api* api) {
  static std::mutex mutex;
  static TypeId type;
  static bool tried = false, known = false;
  const std::lock_guard<std::mutex> lock(mutex);
  if (!tried) {
    tried = true;
    static constexpr std::string_view kName = "jsparse_call";
    static const TypeInfo info;
    Register args{};
    args.struct_size = api->api_version.minor_version < 2 ? offsetof(Register, info) : sizeof(Register);
    args.name = {kName.data(), kName.size()};
    args.type = &type;
    args.info = &info;
    // The header's name of this member depends on the version. Its place, after XLA_FFI_Stream_Get, does not.
    auto* const* members = reinterpret_cast<Function* const*>(&api->XLA_FFI_Stream_Get);
    known = call(api, members[1], &args);
  }
  return known ? &type : nullptr;
}

bool set(const XLA_FFI_CallFrame* frame, TypeId* type, State* state) {
  const XLA_FFI_Api* api = frame->api;
  switch (api->api_version.minor_version) {
    case 1: {
      Set1 args{sizeof(Set1), nullptr, frame->ctx, type, state, destroy};
      return call(api, api->XLA_FFI_State_Set, &args);
    }
    case 2: {
      Access2 args{sizeof(Access2), nullptr, frame->ctx, type, state};
      return call(api, api->XLA_FFI_State_Set, &args);
    }
    default: {
      Access3 args{sizeof(Access3), nullptr, frame->ctx, XLA_FFI_ExecutionStage_INSTANTIATE, type, state};
      return call(api, api->XLA_FFI_State_Set, &args);
    }
  }
}

State* get(const XLA_FFI_CallFrame* frame, TypeId* type) {
  const XLA_FFI_Api* api = frame->api;
  if (api->api_version.minor_version < 3) {
    Access2 args{sizeof(Access2), nullptr, frame->ctx, type, nullptr};
    return call(api, api->XLA_FFI_State_Get, &args) ? static_cast<State*>(args.state) : nullptr;
  }
  Access3 args{sizeof(Access3), nullptr, frame->ctx, XLA_FFI_ExecutionStage_INSTANTIATE, type, nullptr};
  return call(api, api->XLA_FFI_State_Get, &args) ? static_cast<State*>(args.state) : nullptr;
}

}  // namespace

bool give_to_executable(const XLA_FFI_CallFrame* frame, Entry* handle) {
  TypeId* type = type_of_state(frame->api);
  if (type == nullptr) return false;
  auto* state = new (std::nothrow) State{{handle}};
  if (state == nullptr) return false;
  if (set(frame, type, state)) return true;
  delete state;
  return false;
}

bool give_to_running(const XLA_FFI_CallFrame* frame, Entry* handle) {
  TypeId* type = type_of_state(frame->api);
  State* state = type == nullptr ? nullptr : get(frame, type);
  Entry* none = nullptr;
  return state != nullptr && state->handle.compare_exchange_strong(none, handle);
}

}  // namespace jsparse
