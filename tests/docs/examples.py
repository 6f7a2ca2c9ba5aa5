"""Examples in docstrings, as programs."""

import doctest
from collections.abc import Iterator
from contextlib import contextmanager

import jax

__all__ = ["PARSER", "failures"]

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
PARSER = doctest.DocTestParser()


class _Checker(doctest.OutputChecker):
    """Compares the output of an example only where the docstring shows one."""

    def check_output(self, want, got, optionflags):
        return not want or super().check_output(want, got, optionflags)


@contextmanager
def _without_notes() -> Iterator[None]:
    """Keep JAX from adding notes to errors: before Python 3.11.4, doctest takes the last note for the message."""
    mode = jax.config.jax_traceback_filtering
    jax.config.update("jax_traceback_filtering", "off")
    try:
        yield
    finally:
        jax.config.update("jax_traceback_filtering", mode)


def failures(text, scope, name):
    """What is wrong with the examples of a docstring; empty if they run and give what they show."""
    report = []
    test = PARSER.get_doctest(text, scope, name, None, 0)
    with _without_notes():
        result = doctest.DocTestRunner(_Checker(), verbose=False, optionflags=FLAGS).run(test, out=report.append)
    return "".join(report) if result.failed else ""
