"""The module on which the array API standard's own tests run (`make test-array-api`): jsparse's functions on arrays.

The standard's tests make arrays, call functions, and look at single elements of the results. Here an array is a NumPy
array on the host. Each function of jsparse gets tensors of such arrays, and its results become arrays again. A tensor
stores the elements that are not 0, and each -0.0, because an element that is not stored is +0.0.

docs/concepts/array_api.md says where sparse tensors differ from the standard. This module does what that page says:

- A function that only regards stored entries gets tensors that store every element.
- If a PatternError says that a result would be dense, the function is called again with one operand dense, and at last
  with all of them.
- `logical_not` and `~` get dense arrays.
- `ones` and `full` get a format that stores every element, and `empty` is `zeros`.
- jsparse does not have `arange` and the like. Here they are jax.numpy's.
"""

from __future__ import annotations

import operator
from contextlib import suppress
from functools import partial, wraps
from inspect import isfunction
from types import ModuleType

from quick_xla import compile_quickly

compile_quickly()  # before JAX starts

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import jsparse  # noqa: E402
from jsparse import SparseTensor  # noqa: E402
from jsparse.errors import DTypeError, PatternError  # noqa: E402
from jsparse.notation.functions import FUNCTIONS  # noqa: E402

jax.config.update("jax_enable_x64", True)  # the tests have int64 and float64

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip
OF_JAX = ["arange", "linspace", "meshgrid", "finfo", "iinfo", "isdtype", "broadcast_shapes"]

OF_ENTRIES = {name for name, row in FUNCTIONS.items() if row.arity[0] == 1 and not row.is_zero_at_zero}
OF_ENTRIES |= {"argmax", "argmin", "argsort", "cumulative_sum", "full_like", "ones_like"}
DENSE_ONLY = {"logical_not", "bitwise_invert", "invert"}
INDEXED = {"take", "take_along_axis", "repeat", "getitem"}  # all their arrays except the first are indices or counts

COMPARISONS = ["lt", "le", "gt", "ge"]
BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift"]
UNARY = ["abs", "neg", "pos", "invert"]


class Array:
    """An array on the host. Its operators and attributes are those of the SparseTensor that is made of it.

    `==` compares elements, as the standard says. On two SparseTensors it says whether they are one object.
    """

    __hash__ = None

    def __init__(self, whole):
        self.whole = np.asarray(whole)

    def __getattr__(self, name):
        found = getattr(tensor(self.whole), name)
        return on_arrays(found, name) if callable(found) and not isinstance(found, SparseTensor) else array(found)

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) == self.whole.ndim and all(isinstance(k, int) for k in keys):
            return Array(self.whole[key])  # the tests read elements one by one, which would take long from a tensor
        return on_arrays(operator.getitem, "getitem")(self, key)

    def __iter__(self):
        return (self[i] for i in range(len(self.whole)))

    def __bool__(self):
        return bool(self.whole)

    def __int__(self):
        return int(self.whole)

    def __float__(self):
        return float(self.whole)

    def __complex__(self):
        return complex(self.whole)

    def __index__(self):
        return operator.index(self.whole[()])

    def __repr__(self):
        return f"array({self.whole.tolist()!r}, {self.whole.dtype})"


def tensor(whole, stores_all=False):
    """The tensor that stores what is not +0, or every element."""
    if stores_all or whole.ndim == 0:
        return jsparse.asarray(whole, "dense")
    is_stored = whole != 0
    if whole.dtype.kind in "fc":
        is_stored |= np.signbit(whole.real) | np.signbit(whole.imag)
    layout = jsparse.zeros(whole.shape).format
    return SparseTensor.from_coords(np.stack(np.nonzero(is_stored)), whole[is_stored], whole.shape, layout)


def array(found):
    """The array of a result, or a tuple of arrays."""
    if isinstance(found, SparseTensor):
        return Array(found.todense())
    if isinstance(found, jax.Array | np.ndarray):
        return Array(found)
    if isinstance(found, tuple):
        return type(found)(*map(array, found)) if hasattr(found, "_fields") else tuple(map(array, found))
    return found


def on_arrays(function, name):
    """A function of tensors as a function of arrays."""

    @wraps(function)
    def of_arrays(*args, **options):
        leaves, structure = jax.tree.flatten((args, options))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Array)]

        def result(dense):
            given = list(leaves)
            for i in places:
                given[i] = jnp.asarray(leaves[i].whole) if i in dense else tensor(leaves[i].whole, name in OF_ENTRIES)
            args, options = structure.unflatten(given)
            return array(function(*args, **options))

        *choices, last = dense_operands(name, places)
        for dense in choices:
            with suppress(PatternError, *([DTypeError] if name == "pow" else [])):  # dense ** tensor is a DTypeError
                return result(dense)
        return result(last)

    return of_arrays


def dense_operands(name, places):
    """The operands that a function gets as dense arrays: choices to be tried in turn."""
    if name in INDEXED:
        return [places[1:]]
    if name in DENSE_ONLY:
        return [places]
    return [[], *([i] for i in places), places]


def asarray(obj, *, dtype=None, copy=None, device=None):
    return Array(jsparse.asarray(on_host(obj), "dense", dtype=dtype).todense())


def on_host(obj):
    return [on_host(x) for x in obj] if isinstance(obj, tuple | list) else obj.whole if isinstance(obj, Array) else obj


def add_operators():
    for name in [*BINARY, *COMPARISONS, *UNARY]:
        function = on_arrays(getattr(operator, name), name)
        setattr(Array, f"__{name.rstrip('_')}__", function)
        if name in BINARY:
            setattr(Array, f"__r{name.rstrip('_')}__", lambda self, other, function=function: function(other, self))
    Array.__eq__, Array.__ne__ = on_arrays(jsparse.equal, "equal"), on_arrays(jsparse.not_equal, "not_equal")


def namespace():
    made = ModuleType("jsparse on arrays")
    vars(made).update({name: on_arrays(f, name) for name in jsparse.__all__ if isfunction(f := getattr(jsparse, name))})
    vars(made).update({name: on_arrays(getattr(jnp, name), name) for name in OF_JAX if hasattr(jnp, name)})
    vars(made).update({name: np.dtype(name) for name in DTYPES})
    vars(made).update(e=np.e, inf=np.inf, nan=np.nan, pi=np.pi, newaxis=None)
    vars(made).update({name: getattr(jsparse, name) for name in ("__array_api_version__", "__array_namespace_info__")})
    for function in (jsparse.full, jsparse.ones):
        setattr(made, function.__name__, on_arrays(partial(function, format="dense"), function.__name__))
    made.empty, made.empty_like = made.zeros, made.zeros_like
    made.asarray = wraps(jsparse.asarray)(asarray)
    return made


add_operators()
xp = namespace()
