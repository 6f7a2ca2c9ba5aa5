import jax
import pytest

from jsparse import _native


@pytest.fixture(scope="session")
def target() -> str:
    """The handlers under a name of their own: `jsparse_kernel` belongs to the package, and registers once."""
    jax.ffi.register_ffi_target("jsparse_native_test", _native.handlers(), platform="cpu")
    return "jsparse_native_test"


@pytest.fixture
def resolver():
    """`set_resolver` for one test; there is none until it is called."""
    previous = _native.set_resolver(None)
    yield _native.set_resolver
    _native.set_resolver(previous)
