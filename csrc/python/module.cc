// The Python module: handlers, calls, the resolver, and runs on host arrays.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "execution/call_table.h"
#include "execution/ffi_handler.h"
#include "execution/host_executor.h"
#include "execution/profile.h"
#include "kernel/abi.h"
#include "kernel/guard.h"
#include "memory/pages.h"
#include "python/conversions.h"
#include "python/coordinates.h"

namespace py = pybind11;

namespace jsparse {
namespace {

// Null or a callable. This is a plain pointer, because a destructor would release it after the interpreter has ended.
PyObject* resolver = nullptr;

using Described = std::pair<int64_t, std::vector<int64_t>>;  // element type and shape

// A handle on a call. Python owns it, so its destructor runs with the GIL.
class Call {
 public:
  Call() = default;
  Call(Call&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  Call& operator=(Call&&) = delete;
  ~Call() {
    if (entry_ != nullptr) release(entry_);
  }

  // Returns a new handle on what `take` returns, or None for null. The Python object comes first: if there is no memory
  // for it, pybind11 frees a Call that it has not destroyed, or destroys one twice, so that one must not own anything.
  template <class Take>
  static py::object on(const Take& take) {
    py::object handle = py::cast(Call());
    Entry* const entry = take();
    if (entry == nullptr) return py::none();
    handle.cast<Call&>().entry_ = entry;
    return handle;
  }

  const std::string& key() const { return entry_->key; }

  // Throws unless the call takes arguments and results of these element types and shapes.
  void check_operands(const std::vector<Described>& operands) const;

  // Runs the call on host arrays: its arguments, then its results.
  int run(const std::vector<py::array>& arguments) const;

 private:
  Entry* entry_ = nullptr;
};

// Returns the memory and the shape of an array. It throws unless the array is contiguous, aligned and in the
// machine's byte order.
BoundArray view(const py::array& array, const char* what, size_t position) {
  const std::string named = std::string(what) + " " + std::to_string(position);
  if (!(array.flags() & py::array::c_style)) {
    throw py::value_error("Expected contiguous arrays, but " + named +
                          " is not (numpy.ascontiguousarray makes it so)");
  }
  const char order = array.dtype().byteorder();
  if (order == '>' || !(array.flags() & py::detail::npy_api::NPY_ARRAY_ALIGNED_)) {
    throw py::value_error("Expected aligned arrays in the machine's byte order, but " + named +
                          " is not (numpy.array makes it so)");
  }
  return {const_cast<void*>(array.data()), element_of(array.dtype().kind(), array.itemsize()),
          {array.shape(), array.shape() + array.ndim()}};
}

// Throws unless every buffer of known shape fits the signature.
void check(const Signature& signature, const std::vector<BufferShape>& buffers) {
  const int64_t b = signature.misfit(buffers.data());
  if (b < 0) return;
  throw py::value_error("Expected buffer " + std::to_string(b) + " of a kernel to be " + signature.expected(b) +
                        ", but got " + shown(buffers[static_cast<size_t>(b)]));
}

BufferShape shape_of(const Described& buffer) {
  static const int64_t none = 0;  // a valid pointer for a buffer without axes
  const auto& dims = buffer.second;
  return {buffer.first, static_cast<int64_t>(dims.size()), dims.empty() ? &none : dims.data()};
}

void check_buffers(const std::vector<int64_t>& signature, const std::vector<std::optional<Described>>& buffers) {
  std::vector<BufferShape> given;
  for (const auto& buffer : buffers) given.push_back(buffer ? shape_of(*buffer) : BufferShape{0, 0, nullptr});
  check(Signature(signature, buffers.size()), given);
}

Signature signature_of(const py::object& code, size_t buffers) {
  return code.is_none() ? Signature() : Signature(code.cast<std::vector<int64_t>>(), buffers);
}

// Returns the shapes of the kernel's buffers. The shape of an operand is unknown unless the caller gives it.
std::vector<BufferShape> shapes(const Entry& entry, const std::vector<BufferShape>& operands) {
  std::vector<BufferShape> found;
  for (const int64_t slot : entry.slots) {
    if (slot < 0) found.push_back(entry.bound[static_cast<size_t>(-1 - slot)].shape());
    else if (static_cast<size_t>(slot) < operands.size()) found.push_back(operands[static_cast<size_t>(slot)]);
    else found.push_back({0, 0, nullptr});
  }
  return found;
}

Kernel kernel_at(uintptr_t address) {
  if (address == 0) throw py::value_error("Expected the address of a kernel, but got 0");
  return reinterpret_cast<Kernel>(address);
}

void Call::check_operands(const std::vector<Described>& operands) const {
  std::vector<BufferShape> given;
  for (const Described& operand : operands) given.push_back(shape_of(operand));
  std::vector<BufferShape> found = shapes(*entry_, given);
  std::vector<int64_t> kept;
  entry_->signature.drop_ones(found.data(), &kept);
  check(entry_->signature, found);
}

py::object bind_call(std::string key, uintptr_t address, std::vector<int64_t> slots,
                     const std::vector<py::array>& bound, py::object owner, bool pin, const py::object& signature,
                     int64_t results, std::string recipe, std::string bound_names) {
  auto entry = std::make_unique<Entry>();
  entry->key = std::move(key);
  entry->kernel = kernel_at(address);
  entry->slots = std::move(slots);
  entry->results = results;
  entry->recipe = std::move(recipe);
  entry->bound_names = std::move(bound_names);
  for (const int64_t slot : entry->slots) {
    entry->operands = std::max(entry->operands, slot + 1);
    if (slot < -static_cast<int64_t>(bound.size())) {
      throw py::value_error("Expected slots to name one of " + std::to_string(bound.size()) +
                            " bound arrays, but got slot " + std::to_string(slot));
    }
  }
  for (size_t b = 0; b < bound.size(); ++b) {
    entry->bound.push_back(view(bound[b], "bound array", b));
    entry->alive.push_back(bound[b]);
  }
  entry->alive.push_back(std::move(owner));
  entry->signature = signature_of(signature, entry->slots.size());
  check(entry->signature, shapes(*entry, {}));
  return Call::on([&] { return bind(std::move(entry), pin); });
}

py::object find_call(const std::string& key) {
  return Call::on([&] { return acquire(key); });
}

py::object set_resolver(const py::object& f) {
  if (!f.is_none() && !PyCallable_Check(f.ptr())) throw py::type_error("Expected a callable or None");
  PyObject* old = std::exchange(resolver, f.is_none() ? nullptr : f.inc_ref().ptr());
  return old == nullptr ? py::none() : py::reinterpret_steal<py::object>(old);
}

// The error message of the kernel that this thread ran last.
thread_local std::string last_error;

// The buffers of a kernel that runs on host arrays.
struct HostBuffers {
  std::vector<void*> data;
  std::vector<const int64_t*> dims;
  std::vector<BufferShape> shapes;

  void add(const BoundArray& array) {
    data.push_back(array.data);
    dims.push_back(array.dims.data());
    shapes.push_back(array.shape());
  }

  // Without a recipe the run is no part of a profile.
  int run(Kernel kernel, const Signature& signature, int64_t threads, std::string_view recipe,
          std::string_view bound) const {
    check(signature, shapes);
    last_error.clear();
    py::gil_scoped_release nogil;
    const Stopwatch watch;
    const int code =
        guarding() ? run_on_host_guarded(kernel, data.data(), dims.data(), shapes.data(), data.size(), threads, &last_error)
                   : run_on_host(kernel, data.data(), dims.data(), threads, &last_error);
    if (watch.running() && !recipe.empty()) watch.stop(recipe, bound, shapes.data(), shapes.size());
    return code;
  }
};

std::vector<BoundArray> views_of(const std::vector<py::array>& arrays) {
  std::vector<BoundArray> found;
  for (size_t b = 0; b < arrays.size(); ++b) found.push_back(view(arrays[b], "buffer", b));
  return found;
}

int run(uintptr_t address, const std::vector<py::array>& buffers, int64_t threads, const py::object& signature,
        const std::string& recipe) {
  const std::vector<BoundArray> given = views_of(buffers);
  HostBuffers all;
  for (const BoundArray& array : given) all.add(array);
  return all.run(kernel_at(address), signature_of(signature, given.size()), threads, recipe, "");
}

int Call::run(const std::vector<py::array>& arguments) const {
  const std::vector<BoundArray> given = views_of(arguments);
  if (static_cast<int64_t>(given.size()) < entry_->operands) {
    throw py::value_error("Expected " + std::to_string(entry_->operands) + " arguments and results of a call, but got " +
                          std::to_string(given.size()));
  }
  HostBuffers all;
  for (const int64_t slot : entry_->slots) {
    all.add(slot < 0 ? entry_->bound[static_cast<size_t>(-1 - slot)] : given[static_cast<size_t>(slot)]);
  }
  return all.run(entry_->kernel, entry_->signature, 0, entry_->recipe, entry_->bound_names);
}

// Runs a kernel that is a Python function. `function` sets the error itself if it fails. No Python frame is around this
// call, so an exception that is raised before the first instruction of `function`, such as an interrupt, is not lost.
int run_python(const py::object& function, uintptr_t context, uintptr_t buffers, uintptr_t dims) {
  try {
    return function(context, buffers, dims).cast<int>();
  } catch (const std::exception&) {
    reinterpret_cast<Context*>(context)->error = "the function of a kernel that Python runs was interrupted";
    return 1;
  }
}

py::dict handlers() {
  const auto capsule = [] {
    return py::capsule(reinterpret_cast<const void*>(jsparse_handler), "xla._CUSTOM_CALL_TARGET");
  };
  py::dict result;
  result["instantiate"] = capsule();
  result["execute"] = capsule();
  return result;
}

// Returns NumPy arrays on memory that they do not own.
py::object views(const std::vector<BoundArray>& arrays) {
  py::list result;
  for (const BoundArray& array : arrays) {
    const char kind = static_cast<char>(array.element / 256);
    if (kind != 'i') throw py::value_error("Expected index arrays of integers");
    const py::dtype type(std::string(1, kind) + std::to_string(array.element % 256));
    py::array view(type, array.dims, array.data, py::none());
    view.attr("setflags")(py::arg("write") = false);
    result.append(std::move(view));
  }
  return result;
}

}  // namespace

Entry* resolve(const Missing& call, std::string* error) {
  if (!Py_IsInitialized()) {
    *error = "the call " + call.key + " is not bound, and Python has shut down";
    return nullptr;
  }
  py::gil_scoped_acquire gil;
  if (resolver == nullptr) {
    *error = "the call " + call.key + " is not bound, and no resolver is set";
    return nullptr;
  }
  try {
    const auto f = py::reinterpret_borrow<py::object>(resolver);  // our own reference: f may replace the resolver
    const py::object bound =  // keeps the call until there is a handle on it
        call.carried.empty()
            ? f(call.key, call.recipe, call.bound)
            : f(call.key, call.recipe, call.bound, call.carried, call.runs ? views(call.arrays) : py::none());
    return acquire(call.key);
  } catch (py::error_already_set& e) {
    *error = std::string(py::str(e.type().attr("__name__"))) + ": " + std::string(py::str(e.value()));
    return nullptr;
  } catch (const std::exception& e) {
    *error = e.what();
    return nullptr;
  }
}

PYBIND11_MODULE(_native, m) {
  m.doc() = "Runs generated kernels, inside XLA programs and on host arrays. See _native.pyi.";
  py::class_<Call>(m, "Call").def_property_readonly("key", &Call::key)
      .def("check_operands", &Call::check_operands, py::arg("operands"))
      .def("run", &Call::run, py::arg("arguments"));
  m.def("handlers", &handlers);
  m.def("bind_call", &bind_call, py::arg("key"), py::arg("address"), py::arg("slots"), py::arg("bound"),
        py::arg("owner"), py::arg("pin") = false, py::arg("signature") = py::none(), py::arg("results") = -1,
        py::arg("recipe") = "", py::arg("bound_names") = "");
  m.def("check_buffers", &check_buffers, py::arg("signature"), py::arg("buffers"));
  m.def("find_call", &find_call, py::arg("key"));
  m.def("set_guard", &set_guard, py::arg("on"));
  m.def("live_calls", &live_entries);
  m.def("set_resolver", &set_resolver, py::arg("f"));
  m.def("run", &run, py::arg("address"), py::arg("buffers"), py::arg("threads") = 0,
        py::arg("signature") = py::none(), py::arg("recipe") = "");
  m.def("run_python", &run_python, py::arg("function"), py::arg("context"), py::arg("buffers"), py::arg("dims"));
  m.def("open_profile", &open_profile);
  m.def("close_profile", &close_profile);
  m.def("counted", [] {
    py::list found;
    for (const Counted& c : counted()) {
      found.append(py::make_tuple(c.recipe, c.bound, py::tuple(py::cast(c.buffers)), c.calls, c.nanoseconds));
    }
    return found;
  });
  m.def("last_error", [] { return last_error; });
  m.def("memory_bytes", &memory_bytes);
  m.attr("ABI") = kAbi;
  m.attr("FFI_VERSION") = py::make_tuple(kFfiMajor, kFfiMinor);
  define_coordinates(m);
  define_conversions(m);
  define_values(m);
  define_segments(m);
  define_selection(m);
}

}  // namespace jsparse
