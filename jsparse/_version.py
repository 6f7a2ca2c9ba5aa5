"""The version of the installed package, from git: the commit's tag, or the count of commits since the last tag."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("jsparse")
except PackageNotFoundError:  # a copy of the sources that nobody installed
    __version__ = "0+unknown"
