"""The public functions, and the methods that SparseTensor gets from outside its package."""

from jsparse.ops import methods as methods  # installs them
