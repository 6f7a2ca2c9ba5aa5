"""Progress: a line on a terminal once work takes long, and nothing anywhere else."""

import io
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import jsparse
from jsparse.base import progress
from jsparse.base.progress import working
from jsparse.errors import ConfigError


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """A terminal for stderr, on which all work is shown at once."""
    own = SimpleNamespace(stderr=Terminal())  # pytest replaces that of `sys` between a fixture and its test
    monkeypatch.setattr(progress, "sys", own)
    monkeypatch.setattr(progress, "AFTER", -1.0)
    monkeypatch.setattr(progress, "EVERY", -1.0)
    monkeypatch.setattr(progress, "_bar", lambda what, total: None)
    return own.stderr


def shown(terminal):
    """What the terminal showed, line by line; the last one is what is left."""
    return [text.removeprefix("\x1b[K") for text in terminal.getvalue().split("\r")[1:]]


def test_steps_are_shown_and_erased(terminal):
    with working("counting", 4) as step:
        step(1)
        step(4)
    first, quarter, all_, left = shown(terminal)
    assert first.startswith("jsparse: counting (0 s, 0%")
    assert "25%" in quarter
    assert "100%" in all_
    assert left == ""


def test_nothing_is_shown_within_two_seconds(terminal, monkeypatch):
    monkeypatch.setattr(progress, "AFTER", 2.0)
    with working("short", 10) as step:
        step(5)
    assert terminal.getvalue() == ""


def test_nothing_is_shown_where_stderr_is_no_terminal(terminal, monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(progress.sys, "stderr", file)
    with working("counting", 4, is_long=True) as step:
        step(4)
    assert file.getvalue() == ""
    monkeypatch.setattr(progress.sys, "stderr", None)
    with working("counting", 4) as step:
        step(4)


def test_the_setting(terminal):
    jsparse.config.progress = False
    try:
        with working("counting", 4) as step:
            step(4)
        assert terminal.getvalue() == ""
        with pytest.raises(ConfigError, match="progress"):
            jsparse.config.progress = "sometimes"
    finally:
        jsparse.config.progress = True


def test_inner_work_is_part_of_the_outer(terminal):
    with working("outer") as outer, working("inner") as inner:
        inner(1)
        outer(1)
    assert not any("inner" in line for line in shown(terminal))
    assert "outer" in terminal.getvalue()


def test_short_pieces_of_work_in_a_row_are_long_work(terminal, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    monkeypatch.setattr(progress, "AFTER", 2.0)
    progress._work.last = float("-inf")
    for n in range(5):
        with working(f"kernel {n}"):
            now[0] += 0.9
        now[0] += 0.1
    assert [line.split(" (")[0] for line in shown(terminal) if line] == ["jsparse: kernel 3", "jsparse: kernel 4"]
    now[0] += 10
    with working("later"):
        pass
    assert "later" not in terminal.getvalue()


def test_one_long_call_is_shown_by_a_timer(terminal, monkeypatch):
    monkeypatch.setattr(progress, "AFTER", 0.01)
    before = threading.active_count()
    seen = threading.Event()
    monkeypatch.setattr(progress, "_write", lambda text: (terminal.write(text), seen.set()))
    progress._work.last = float("-inf")
    with working("one call", is_long=True):
        assert seen.wait(60)
    assert shown(terminal)[-1] == ""
    assert "one call" in terminal.getvalue()
    with working("no call"):
        assert threading.active_count() <= before + 1  # the timer may still end


def test_an_error_erases_the_line(terminal):
    def fails():
        with working("failing"):
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fails()
    assert shown(terminal)[-1] == ""


def test_a_bar_of_tqdm(terminal, monkeypatch):
    monkeypatch.undo()
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress, "AFTER", -1.0)
    with working("reading", 100) as step:
        step(50)
    assert "jsparse: reading" in sys.stderr.getvalue()
    assert "%" in sys.stderr.getvalue()


def test_files_sorts_and_kernels_report_themselves(terminal, tmp_path):
    coords = np.array([[3, 0, 2, 3], [1, 1, 0, 0]])
    A = jsparse.SparseTensor.from_coords(coords, np.arange(4.0, dtype=np.float32), (4, 2), format="csr")
    jsparse.save(tmp_path / "a.mtx", A)
    jsparse.load(tmp_path / "a.mtx")
    jsparse.clear_cache()
    cache = jsparse.config.cache_dir
    jsparse.config.cache_dir = None
    try:
        jsparse.evaluate("y[i] = 3 * A[i,j] * x[j]", A=A, x=np.ones(2, np.float32))
    finally:
        jsparse.config.cache_dir = cache
    text = terminal.getvalue()
    for part in ("sorting 4 entries", "reading a.mtx", "compiling C[i] = "):
        assert part in text
    assert shown(terminal)[-1] == ""
