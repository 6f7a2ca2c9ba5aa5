"""Examples in docstrings, as programs."""

import doctest

__all__ = ["PARSER", "failures"]

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
PARSER = doctest.DocTestParser()


class _Checker(doctest.OutputChecker):
    """Compares the output of an example only where the docstring shows one."""

    def check_output(self, want, got, optionflags):
        return not want or super().check_output(want, got, optionflags)


def failures(text, scope, name):
    """What is wrong with the examples of a docstring; empty if they run and give what they show."""
    report = []
    test = PARSER.get_doctest(text, scope, name, None, 0)
    result = doctest.DocTestRunner(_Checker(), verbose=False, optionflags=FLAGS).run(test, out=report.append)
    return "".join(report) if result.failed else ""
