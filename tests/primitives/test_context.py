"""Settings in the cache keys of jitted functions: a new value traces again, an old value does not."""

import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jsparse import _compat

CONTEXT = _compat.make_context(1)  # made once, like settings, because each becomes a part of all cache keys of JAX


@pytest.fixture
def context():
    CONTEXT.set_global(1)
    yield CONTEXT
    CONTEXT.set_global(1)


@pytest.fixture
def traces():
    return []


@pytest.fixture
def scaled(context, traces):
    @jax.jit
    def scaled(x):
        traces.append(context.value)
        return context.value * x

    return scaled


def test_a_block_sets_the_value_and_restores_it(context):
    assert context.value == 1
    with context(2):
        assert context.value == 2
        with context(3):
            assert context.value == 3
        assert context.value == 2
    assert context.value == 1


def test_a_block_that_raises_restores_the_value(context):
    with pytest.raises(KeyError), context(2):
        raise KeyError
    assert context.value == 1


def test_the_global_value_holds_outside_of_blocks(context):
    with context(2):
        context.set_global(3)
        assert context.value == 2
    assert context.value == 3


def test_none_is_a_value_like_any_other(context):
    with context(2), context(None):
        assert context.value is None


def test_functions_trace_once_for_each_value_of_a_block(context, scaled, traces):
    for _ in range(3):
        np.testing.assert_array_equal(scaled(jnp.arange(3)), [0, 1, 2])
        with context(2):
            np.testing.assert_array_equal(scaled(jnp.arange(3)), [0, 2, 4])
    assert traces == [1, 2]


def test_functions_trace_once_for_each_global_value(context, scaled, traces):
    for value in (1, 2, 3, 2, 1, 3):
        context.set_global(value)
        np.testing.assert_array_equal(scaled(jnp.arange(3)), np.arange(3) * value)
    assert traces == [1, 2, 3]


def test_equal_values_are_one_value(context, scaled, traces):
    for parts in ([2, 3], [2, 3], [2, 4]):
        with context(np.float32(sum(parts))):
            scaled(1.0)
    assert traces == [5, 6]


def test_functions_called_by_jitted_functions_trace_again_too(context, scaled, traces):
    outer = jax.jit(lambda x: scaled(x) + 1)
    results = []
    for value in (1, 2, 1, 2):
        with context(value):
            results.append(int(outer(10)))
    assert results == [11, 21, 11, 21]
    assert traces == [1, 2]


def test_transformed_functions_trace_again_too(context, scaled):
    for transform, expected in ((jax.grad, 2.0), (jax.vmap, [6.0])):
        function = jax.jit(transform(scaled))
        argument = jnp.asarray([3.0] if transform is jax.vmap else 3.0)
        before = function(argument)
        with context(2):
            np.testing.assert_array_equal(function(argument), expected)
        np.testing.assert_array_equal(function(argument), before)


def test_a_block_sets_its_thread_and_the_global_value_all_threads(context, scaled, traces):
    with ThreadPoolExecutor(1) as other:
        assert other.submit(lambda: int(scaled(10))).result() == 10
        with context(2):
            assert int(scaled(10)) == 20
            assert other.submit(lambda: int(scaled(10))).result() == 10
        context.set_global(3)
        assert other.submit(lambda: int(scaled(10))).result() == 30
    assert int(scaled(10)) == 30
    assert traces == [1, 2, 3]


def test_blocks_of_many_threads_do_not_mix(context, scaled):
    together = threading.Barrier(4)

    def work(value):
        together.wait()
        for _ in range(20):
            with context(value):
                if int(scaled(10)) != 10 * value:
                    return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(2, 6)))


def test_a_value_that_cannot_be_hashed_is_refused(context, scaled):
    with pytest.raises(TypeError, match="unhashable"), context([]):
        scaled(1.0)
