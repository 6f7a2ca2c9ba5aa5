"""The version of jsparse, where the compiler may ask for it without the rest of the package."""

__version__ = "0.1.0"
