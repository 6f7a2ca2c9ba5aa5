// This file uses only the C API, and of that only version 0.1, so that one binary works with every jaxlib: a runtime
// rejects a handler that was compiled from a newer `ffi.h` than its own. The handler has no state on purpose, because
// registering a state type before the CPU client exists breaks the client.
#include "execution/ffi_handler.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <limits>
#include <memory>
#include <string_view>
#include <type_traits>
#include <vector>

#include "execution/call_table.h"
#include "execution/executable_state.h"
#include "execution/profile.h"
#include "kernel/guard.h"
#include "kernel/workspace.h"
#include "memory/pages.h"
#include "threads/loops.h"
#include "threads/parallel_for.h"

namespace jsparse {
namespace {

// Newer headers give these two types other names, but the same members.
using Extension = std::remove_pointer_t<decltype(XLA_FFI_CallFrame::extension_start)>;
using InvokeContext = std::remove_pointer_t<decltype(XLA_FFI_CallFrame::ctx)>;

XLA_FFI_Error* failure(const XLA_FFI_Api* api, XLA_FFI_Error_Code code, const char* message) {
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message;
  args.errc = code;
  return api->XLA_FFI_Error_Create(&args);
}

XLA_FFI_Error* failure(const XLA_FFI_Api* api, XLA_FFI_Error_Code code, const std::string& message) {
  return failure(api, code, message.c_str());
}

// XLA asks every handler for its version before it registers it. The answer must not touch fields of XLA_FFI_Metadata
// that 0.1 did not have.
XLA_FFI_Error* describe(Extension* extension) {
  XLA_FFI_Metadata* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
  metadata->api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
  metadata->api_version.extension_start = nullptr;
  metadata->api_version.major_version = kFfiMajor;
  metadata->api_version.minor_version = kFfiMinor;
  metadata->traits = 0;
  return nullptr;
}

// ---- The intra-op pool of XLA as the pool of a kernel's parallel loops.

struct FfiContext : Context {
  const XLA_FFI_Api* api;
  InvokeContext* ctx;
};

bool schedule(void* pool, void (*task)(void*), void* data) noexcept try {
  auto* self = static_cast<FfiContext*>(pool);
  XLA_FFI_ThreadPool_Schedule_Args args{};
  args.struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE;
  args.ctx = self->ctx;
  args.task = task;
  args.data = data;
  return succeeded(self->api, self->api->XLA_FFI_ThreadPool_Schedule(&args));
} catch (...) {  // out of memory: XLA may have queued the task before
  return true;
}

void ffi_parallel_for(Context* ctx, int64_t n, Body body, void* arg) noexcept {
  parallel_for(n, ctx->num_threads, body, arg, schedule, static_cast<FfiContext*>(ctx));
}

int64_t pool_size(const XLA_FFI_CallFrame* frame) {
  int64_t count = 1;
  XLA_FFI_ThreadPool_NumThreads_Args args{};
  args.struct_size = XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE;
  args.ctx = frame->ctx;
  args.num_threads = &count;
  return succeeded(frame->api, frame->api->XLA_FFI_ThreadPool_NumThreads(&args)) && count > 1 ? count : 1;
}

// ---- Attributes.

struct Attributes {
  std::string_view key, recipe, bound, carried;

  // The number of arguments, the last ones, that are index arrays of patterns which an exported program carries. They
  // are for the resolver, not for the kernel.
  int64_t arrays() const {
    int64_t count = 0;
    std::from_chars(carried.data(), carried.data() + carried.size(), count);
    return std::max<int64_t>(count, 0);
  }
};

Attributes attributes(const XLA_FFI_Attrs& attrs) {
  Attributes result;
  for (int64_t i = 0; i < attrs.size; ++i) {
    if (attrs.types[i] != XLA_FFI_AttrType_STRING) continue;
    const std::string_view name(attrs.names[i]->ptr, attrs.names[i]->len);
    const auto* text = static_cast<const XLA_FFI_ByteSpan*>(attrs.attrs[i]);
    const std::string_view value(text->ptr, text->len);
    if (name == "key") result.key = value;
    if (name == "recipe") result.recipe = value;
    if (name == "bound") result.bound = value;
    if (name == "carried") result.carried = value;
  }
  return result;
}

// ---- Elements and shapes of buffers.

// Returns the element type of a buffer, as signature.h encodes it, or 0 for a type that no kernel takes.
int64_t element_of(const XLA_FFI_Buffer& buffer) {
  using jsparse::element_of;
  switch (buffer.dtype) {
    case XLA_FFI_DataType_PRED: return element_of('b', 1);
    case XLA_FFI_DataType_S8: return element_of('i', 1);
    case XLA_FFI_DataType_S16: return element_of('i', 2);
    case XLA_FFI_DataType_S32: return element_of('i', 4);
    case XLA_FFI_DataType_S64: return element_of('i', 8);
    case XLA_FFI_DataType_U8: return element_of('u', 1);
    case XLA_FFI_DataType_U16: return element_of('u', 2);
    case XLA_FFI_DataType_U32: return element_of('u', 4);
    case XLA_FFI_DataType_U64: return element_of('u', 8);
    case XLA_FFI_DataType_F16: return element_of('f', 2);
    case XLA_FFI_DataType_F32: return element_of('f', 4);
    case XLA_FFI_DataType_F64: return element_of('f', 8);
    case XLA_FFI_DataType_BF16: return element_of('V', 2);
    case XLA_FFI_DataType_C64: return element_of('c', 8);
    case XLA_FFI_DataType_C128: return element_of('c', 16);
    default: return 0;
  }
}

BufferShape shape_of(const XLA_FFI_Buffer& buffer) {
  static const int64_t none = 0;  // dims of a buffer without axes, for which XLA may have a null pointer
  return {element_of(buffer), buffer.rank, buffer.dims != nullptr ? buffer.dims : &none};
}

// ---- The two stages.

template <class T>
void fill(Context* ctx, void* data, int64_t count, T value) {
  slices(ctx, count, slice_count(ctx, count), [&](int64_t, int64_t begin, int64_t end) noexcept {
    std::fill(static_cast<T*>(data) + begin, static_cast<T*>(data) + end, value);
  });
}

// Fills a buffer with NaN, if its dtype has one.
void fill_nan(Context* ctx, const XLA_FFI_Buffer& buffer) {
  int64_t count = 1;
  for (int64_t axis = 0; axis < buffer.rank; ++axis) count *= buffer.dims[axis];
  switch (buffer.dtype) {
    case XLA_FFI_DataType_F64: return fill(ctx, buffer.data, count, std::numeric_limits<double>::quiet_NaN());
    case XLA_FFI_DataType_F32: return fill(ctx, buffer.data, count, std::numeric_limits<float>::quiet_NaN());
    case XLA_FFI_DataType_F16: return fill(ctx, buffer.data, count, uint16_t{0x7e00});
    case XLA_FFI_DataType_BF16: return fill(ctx, buffer.data, count, uint16_t{0x7fc0});
    default: return;
  }
}

// Returns whether the call has one more operand, a bool that says whether a pattern overflowed, so that the results are
// NaN. The attribute `bound` of such a call ends in this letter.
bool has_validity(std::string_view bound) { return !bound.empty() && bound.back() == '!'; }

int guarded(Context* ctx, const Entry& entry, void* const* buffers, const int64_t* const* dims,
            const BufferShape* shapes, int64_t args) {
  const size_t count = entry.slots.size();
  const auto results = std::make_unique<bool[]>(count);
  for (size_t b = 0; b < count; ++b) results[b] = entry.slots[b] >= args;
  return run_guarded(entry.kernel, ctx, buffers, dims, shapes, results.get(), count, true);
}

XLA_FFI_Error* run(const XLA_FFI_CallFrame* frame, const Entry& entry, const Attributes& attrs) {
  const bool validity = has_validity(attrs.bound);
  const int64_t args = frame->args.size - attrs.arrays(), operands = args + frame->rets.size;
  if (args < 0 || operands < entry.operands) {
    return failure(frame->api, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                   "jsparse: expected at least " + std::to_string(entry.operands) +
                       " arguments and results for the call " + entry.key + ", but it has " + std::to_string(operands));
  }
  if (entry.results >= 0 && (frame->rets.size != entry.results || operands != entry.operands)) {
    return failure(frame->api, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                   "jsparse: expected " + std::to_string(entry.operands - entry.results) + " arguments and " +
                       std::to_string(entry.results) + " results of the call " + entry.key + ", but it has " +
                       std::to_string(args) + " and " + std::to_string(frame->rets.size));
  }
  constexpr size_t kInline = 32;
  std::array<void*, kInline> inline_buffers;
  std::array<const int64_t*, kInline> inline_dims;
  std::array<BufferShape, kInline> inline_shapes;
  std::vector<void*> more_buffers;
  std::vector<const int64_t*> more_dims;
  std::vector<BufferShape> more_shapes;
  void** buffers = inline_buffers.data();
  const int64_t** dims = inline_dims.data();
  BufferShape* shapes = inline_shapes.data();
  const size_t count = entry.slots.size();
  if (count > kInline) {
    more_buffers.resize(count);
    more_dims.resize(count);
    more_shapes.resize(count);
    buffers = more_buffers.data();
    dims = more_dims.data();
    shapes = more_shapes.data();
  }
  for (size_t b = 0; b < count; ++b) {
    const int64_t slot = entry.slots[b];
    if (slot < 0) {
      const BoundArray& array = entry.bound[static_cast<size_t>(-1 - slot)];
      buffers[b] = array.data;
      shapes[b] = array.shape();
    } else {
      const auto* buffer =
          static_cast<const XLA_FFI_Buffer*>(slot < args ? frame->args.args[slot] : frame->rets.rets[slot - args]);
      buffers[b] = buffer->data;
      shapes[b] = shape_of(*buffer);
    }
  }
  std::vector<int64_t> kept;
  entry.signature.drop_ones(shapes, &kept);
  for (size_t b = 0; b < count; ++b) dims[b] = shapes[b].dims;
  const int64_t wrong = entry.signature.misfit(shapes);
  if (wrong >= 0) {
    return failure(frame->api, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                   "jsparse: expected buffer " + std::to_string(wrong) + " of the call " + entry.key + " to be " +
                       entry.signature.expected(wrong) + ", but got " + shown(shapes[wrong]));
  }
  for (size_t b = 0; b < count; ++b) {
    if (entry.slots[b] >= args) advise_huge_pages(buffers[b], bytes_of(shapes[b]));
  }
  FfiContext ctx;
  ctx.num_threads = pool_size(frame);
  ctx.parallel_for = ffi_parallel_for;
  ctx.api = frame->api;
  ctx.ctx = frame->ctx;
  SpareMemory memory;
  ctx.spare = &memory;
  if (validity && args > 0) {
    const auto* invalid = static_cast<const XLA_FFI_Buffer*>(frame->args.args[args - 1]);
    if (invalid->dtype != XLA_FFI_DataType_PRED || invalid->rank != 0) {
      return failure(frame->api, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                     "jsparse: expected a bool after the arguments of the call " + entry.key);
    }
    if (*static_cast<const bool*>(invalid->data)) {
      for (int64_t n = 0; n < frame->rets.size; ++n) fill_nan(&ctx, *static_cast<XLA_FFI_Buffer*>(frame->rets.rets[n]));
      return nullptr;
    }
  }
  const Stopwatch watch;
  const int code = guarding() ? guarded(&ctx, entry, buffers, dims, shapes, args) : entry.kernel(&ctx, buffers, dims);
  if (watch.running()) watch.stop(attrs.recipe, attrs.bound, shapes, count);
  if (code == 0) return nullptr;
  return failure(frame->api, XLA_FFI_Error_Code_INTERNAL,
                 "jsparse: " + (ctx.error != nullptr ? std::string(ctx.error)
                                                     : "a kernel failed with code " + std::to_string(code)));
}

// The attributes and the index arrays of a call that is not bound. The resolver binds the call from these.
Missing missing(const XLA_FFI_CallFrame* frame, const Attributes& attrs) {
  Missing call{std::string(attrs.key), std::string(attrs.recipe), std::string(attrs.bound), std::string(attrs.carried),
               {}, frame->stage == XLA_FFI_ExecutionStage_EXECUTE};
  const int64_t args = frame->args.size;
  for (int64_t n = std::max<int64_t>(args - attrs.arrays(), 0); call.runs && n < args; ++n) {
    const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(frame->args.args[n]);
    const BufferShape shape = shape_of(buffer);
    call.arrays.push_back({buffer.data, shape.element, {shape.dims, shape.dims + shape.rank}});
  }
  return call;
}

XLA_FFI_Error* unbound(const XLA_FFI_Api* api, const Attributes& attrs, const std::string& reason) {
  return failure(api, XLA_FFI_Error_Code_NOT_FOUND,
                 "jsparse: " + (reason.empty() ? "the resolver did not bind the call " + std::string(attrs.key) : reason));
}

// XLA instantiates the call whenever it makes or loads an executable, which holds a handle on it from then on. If the
// executable comes from a cache, a file or another process, the call is not bound yet, and Python rebuilds it from the
// recipe; if its index arrays are among the arguments, it is bound when it first runs.
XLA_FFI_Error* instantiate(const XLA_FFI_CallFrame* frame, const Attributes& attrs) {
  Entry* entry = acquire(attrs.key);
  const bool loaded = entry == nullptr;
  if (loaded) {
    std::string reason;
    entry = resolve(missing(frame, attrs), &reason);
    if (entry == nullptr && (!reason.empty() || attrs.carried.empty())) return unbound(frame->api, attrs, reason);
  }
  if (give_to_executable(frame, entry) || entry == nullptr) return nullptr;
  if (loaded) pin(entry);  // nobody would keep it
  release_on_any_thread(entry);
  return nullptr;
}

XLA_FFI_Error* execute(const XLA_FFI_CallFrame* frame, const Attributes& attrs) {
  {
    const Reader reader;  // keeps the entry alive until the kernel has returned
    if (const Entry* entry = reader.find(attrs.key)) return run(frame, *entry, attrs);
  }
  std::string reason;
  Entry* entry = resolve(missing(frame, attrs), &reason);
  if (entry == nullptr) return unbound(frame->api, attrs, reason);
  XLA_FFI_Error* error = run(frame, *entry, attrs);  // the handle keeps the entry alive
  if (!give_to_running(frame, entry)) {
    pin(entry);
    release_on_any_thread(entry);
  }
  return error;
}

XLA_FFI_Error* handle(const XLA_FFI_CallFrame* frame) {
  const Attributes attrs = attributes(frame->attrs);
  if (attrs.key.data() == nullptr) {
    return failure(frame->api, XLA_FFI_Error_Code_INVALID_ARGUMENT, "jsparse: expected a string attribute `key`");
  }
  return frame->stage == XLA_FFI_ExecutionStage_EXECUTE ? execute(frame, attrs) : instantiate(frame, attrs);
}

}  // namespace

extern "C" XLA_FFI_Error* jsparse_handler(XLA_FFI_CallFrame* frame) {
  for (Extension* extension = frame->extension_start; extension != nullptr; extension = extension->next) {
    if (extension->type == XLA_FFI_Extension_Metadata) return describe(extension);
  }
  try {
    return handle(frame);
  } catch (const std::bad_alloc&) {  // an exception must not cross into XLA, and a message that is made needs memory
    return failure(frame->api, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "jsparse: no memory");
  } catch (const std::exception& e) {
    return failure(frame->api, XLA_FFI_Error_Code_INTERNAL, e.what());
  }
}

}  // namespace jsparse
