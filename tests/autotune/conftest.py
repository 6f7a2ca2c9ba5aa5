import math

import pytest

import jsparse
from jsparse.compiler import cache
from jsparse.compiler.cache import entry


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache of its own, in a process that does not mind that somebody edits sources."""
    monkeypatch.setattr(cache, "_warned", [])
    monkeypatch.setattr(entry, "_sources", entry.Sources(entry._sources.root, math.inf))
    entry.environment.cache_clear()
    before = jsparse.config.cache_dir
    jsparse.config.cache_dir = tmp_path
    yield tmp_path
    jsparse.config.cache_dir = before
    entry.environment.cache_clear()
    jsparse.clear_cache()
