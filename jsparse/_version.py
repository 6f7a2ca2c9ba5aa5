"""The version of the installed package. A tag of git is a release, and other commits count on from the last tag."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("jsparse")
except PackageNotFoundError:  # a copy of the sources that nobody installed
    __version__ = "0+unknown"
