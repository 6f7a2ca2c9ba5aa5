from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tests_folder():
    """The folder from which tests, and programs that tests start, import helpers."""
    return Path(__file__).parent.parent
