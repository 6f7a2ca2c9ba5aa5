"""Options of the test run."""

import os

# Tests that count compilations mean what they say, and none depends on what an earlier run left. Of the cache on disk
# those in tests/compiler/cache/ know. Set before jsparse is imported, here and in the processes that tests start.
os.environ["JSPARSE_CACHE_DIR"] = ""


def pytest_addoption(parser):
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files instead of comparing with them"
    )
