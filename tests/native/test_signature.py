"""Kernels refuse buffers that do not fit their signatures."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsparse import asarray
from jsparse.base import _native
from jsparse.compiler.lower.storage import buffer_types, kernel_buffers
from jsparse.compiler.runtime.bound_arrays import OPERAND
from jsparse.compiler.runtime.kernel_call import kernel_of, run_recipe
from jsparse.compiler.runtime.recipe import digest, read_recipe
from jsparse.compiler.signature import BufferType, Length, element_code, encode_buffers, static_buffer_type

N = Length(0, "n")


def fits(types: list[BufferType], *given: tuple[str, tuple[int, ...]] | None) -> bool:
    try:
        _native.check_buffers(encode_buffers(types), [None if g is None else (element_code(g[0]), g[1]) for g in given])
    except ValueError:
        return False
    return True


def test_a_symbol_has_one_value() -> None:
    types = [
        static_buffer_type("int32", 6),
        BufferType("int32", (N,)),
        BufferType("float32", (Length(2), N.times(3) + 1)),
    ]
    assert fits(types, ("int32", (6,)), ("int32", (4,)), ("float32", (2, 13)))
    assert not fits(types, ("int32", (6,)), ("int32", (4,)), ("float32", (2, 12)))
    assert not fits(types, ("int32", (6,)), ("int32", (5,)), ("float32", (2, 13)))
    assert fits(types, None, None, ("float32", (2, 13)))
    assert not fits(types, None, None, ("float32", (2, 12)))  # 11 is no multiple of 3
    assert not fits(types, None, None, ("float32", (2, 0)))
    assert not fits(types, ("int64", (6,)), None, None)
    assert not fits(types, ("int32", (6, 1)), None, None)
    assert not fits(types, ("uint32", (6,)), None, None)


def test_any_dtype_of_a_size() -> None:
    assert fits([static_buffer_type(2, 3)], ("bfloat16", (3,)))
    assert fits([static_buffer_type(2, 3)], ("int16", (3,)))
    assert not fits([static_buffer_type(2, 3)], ("int8", (3,)))


def test_buffers_of_length_zero() -> None:
    types = [BufferType("float32", (N.times(0),)), BufferType("int32", (N,))]
    assert fits(types, ("float32", (0,)), ("int32", (7,)))
    assert not fits(types, ("float32", (1,)), ("int32", (7,)))


def test_buffer_types_follow_the_formats() -> None:
    shown = {}
    for format in ("csr", "dcsr", "coo", "(i, j) -> (i : compressed, j : dense)"):
        A = asarray(np.eye(5, 7, dtype=np.float32), format)
        problem, _ = read_recipe(_recipe(A))
        named = zip(kernel_buffers(problem), buffer_types(problem), strict=True)
        shown[format] = ", ".join(f"{type_}" for buffer, type_ in named if "_" in buffer.name or buffer.name == "A")
    assert shown["csr"] == "float32[P0_1], int32[6], int32[P0_1]"
    assert shown["dcsr"] == "float32[P0_1], int32[2], int32[P0_0], int32[P0_0 + 1], int32[P0_1]"
    assert shown["coo"] == "float32[P0_0], int32[2], int32[P0_0], int32[P0_0]"
    assert shown["(i, j) -> (i : compressed, j : dense)"] == "float32[7*P0_0], int32[2], int32[P0_0]"


def _recipe(A) -> str:
    lowered = jax.jit(lambda A: A @ jnp.ones((7, 3), jnp.float32)).lower(A).as_text()
    start = lowered.index('recipe = "') + len('recipe = "')
    text = lowered[start : lowered.index('"}', start)] if '"}' in lowered[start:] else lowered[start:]
    return text.split('", ')[0].replace("\\22", '"').replace('\\"', '"')


def test_host_runs_compare() -> None:
    A = asarray(np.eye(5, 7, dtype=np.float32))
    recipe, (pointers, columns) = _recipe(A), A.pattern.arrays
    X, out = np.ones((7, 3), np.float32), np.zeros((5, 3), np.float32)
    run_recipe(recipe, [np.asarray(A.values), X, pointers, columns, out])
    np.testing.assert_array_equal(out, np.eye(5, 7) @ X)
    for changed in ((pointers[:-1], columns), (pointers, columns[:-1]), (pointers.astype(np.int64), columns)):
        with pytest.raises(ValueError, match="Expected buffer . of a kernel to be int32 of shape"):
            run_recipe(recipe, [np.asarray(A.values), X, *changed, out])
    with pytest.raises(ValueError, match="aligned arrays in the machine's byte order"):
        run_recipe(recipe, [np.asarray(A.values), X, pointers.astype(">i4"), columns, out])
    shifted = np.zeros(4 * len(columns) + 1, np.uint8)[1:].view(np.int32)
    with pytest.raises(ValueError, match="aligned"):
        run_recipe(recipe, [np.asarray(A.values), X, pointers, shifted, out])


def test_bound_arrays_compare_when_they_are_bound() -> None:
    A = asarray(np.eye(5, 7, dtype=np.float32))
    kernel, (pointers, columns) = kernel_of(_recipe(A)), A.pattern.arrays
    slots = [0, 1, -1, -2, 2]
    wanted = r"buffer 2 of a kernel to be int32 of shape \[6\], but got int32 of shape \[5\]"
    code, signature = kernel.code.address, kernel.signature
    with pytest.raises(ValueError, match=wanted):
        _native.bind_call("signature/1", code, slots, [pointers[:-1], columns], kernel, False, signature)
    call = _native.bind_call("signature/2", code, slots, [pointers, columns], kernel, False, signature)
    good = [(element_code("float32"), shape) for shape in ((5,), (7, 3), (5, 3))]
    call.check_operands(good)
    for n in range(3):
        for wrong in ((element_code("float32"), (4, 4, 4)), (element_code("float64"), good[n][1])):
            with pytest.raises(ValueError, match="Expected buffer"):
                call.check_operands([wrong if m == n else g for m, g in enumerate(good)])


def test_programs_compare_at_each_call() -> None:
    """The handler compares buffers, too, since a program may be loaded instead of lowered in this process."""
    A = asarray(np.eye(5, 7, dtype=np.float32))
    lowered = jax.jit(lambda A: A @ jnp.ones((7, 3), jnp.float32)).lower(A).as_text()
    key = lowered[lowered.index('key = "') + 7 :].split('"')[0]
    compiled = jax.jit(lambda A: A @ jnp.ones((7, 3), jnp.float32))
    compiled(A)
    call = jax.ffi.ffi_call("jsparse_kernel", jax.ShapeDtypeStruct((5, 3), jnp.float32))
    X = jnp.ones((7, 3), jnp.float32)
    np.testing.assert_array_equal(call(A.values, X, key=key, recipe="", bound=""), np.eye(5, 7) @ X)
    for values, x in ((A.values[:-1], X), (A.values, X[:-1]), (A.values.astype(jnp.int32), X)):
        with pytest.raises(jax.errors.JaxRuntimeError, match="jsparse: expected buffer"):
            jax.block_until_ready(call(values, x, key=key, recipe="", bound=""))
    with pytest.raises(jax.errors.JaxRuntimeError, match="jsparse: expected 2 arguments and 1 results of the call"):
        jax.block_until_ready(call(A.values, X, jnp.zeros((5, 3)), key=key, recipe="", bound=""))


def test_offsets_of_values_are_counted_where_they_are_bound() -> None:
    """Earlier programs have an operand with the offsets at which chunks write. It is not read: anybody can edit it."""
    A, B = asarray(np.eye(5, 7, dtype=np.float32)), asarray(np.ones((5, 7), np.float32))
    text = jax.jit(lambda v, w: (A.with_values(v) + B.with_values(w)).values).lower(A.values, B.values).as_text()
    found = {name: value.replace("\\22", '"') for name, value in re.findall(r'(recipe|bound) = "([^"]*)"', text)}
    assert '"write","none",true' in found["recipe"]
    bound = f"{found['bound']} {OPERAND}"
    given = {"recipe": found["recipe"], "bound": bound, "key": digest(found["recipe"], bound)}
    call = jax.ffi.ffi_call("jsparse_kernel", jax.ShapeDtypeStruct((35,), jnp.float32))
    values = call(A.values, B.values, jnp.full(64, 2**30, jnp.int32), **given)
    np.testing.assert_array_equal(values, 1 + np.eye(5, 7).ravel())
    short = jax.ffi.ffi_call("jsparse_kernel", jax.ShapeDtypeStruct((34,), jnp.float32))
    with pytest.raises(jax.errors.JaxRuntimeError, match="jsparse: expected buffer"):
        jax.block_until_ready(short(A.values, B.values, jnp.zeros(64, jnp.int32), **given))
