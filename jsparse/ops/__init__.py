"""The public functions, and the methods of SparseTensor that compute."""

from jsparse.ops import methods as methods  # installs them
