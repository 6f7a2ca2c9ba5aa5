import jax
import pytest

from jsparse.base import _native


@pytest.fixture(scope="session")
def target() -> str:
    """The handlers, registered under another name, since the package registers `jsparse_kernel`."""
    jax.ffi.register_ffi_target("jsparse_native_test", _native.handlers(), platform="cpu")
    return "jsparse_native_test"


@pytest.fixture
def resolver():
    """`set_resolver` for one test, which starts without a resolver."""
    previous = _native.set_resolver(None)
    yield _native.set_resolver
    _native.set_resolver(previous)
