"""The version of the installed package. A git tag is a release; versions of other commits count from the last tag."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("jsparse")
except PackageNotFoundError:  # a copy of the sources that nobody installed
    __version__ = "0+unknown"
