import math

import pytest

import jsparse
from jsparse.compiler import cache
from jsparse.compiler.cache import entry


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """One that is not there yet; and a process that has not warned, and does not mind that somebody edits sources."""
    monkeypatch.setattr(cache, "_warned", [])
    monkeypatch.setattr(entry, "_sources", entry.Sources(entry._sources.root, math.inf))
    entry.environment.cache_clear()
    before = jsparse.config.cache_dir, jsparse.config.cache_bytes
    jsparse.config.cache_dir = tmp_path / "deep" / "cache"
    yield tmp_path / "deep" / "cache"
    jsparse.config.cache_dir, jsparse.config.cache_bytes = before
    entry.environment.cache_clear()
