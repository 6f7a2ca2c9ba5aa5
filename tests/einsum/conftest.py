from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tests_folder():
    """The folder that helpers are imported from, also in programs that a test starts."""
    return Path(__file__).parent.parent
