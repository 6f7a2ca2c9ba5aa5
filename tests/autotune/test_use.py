"""Schedules that are kept, and used under `config.autotune = "use"`."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

import jsparse
from jsparse import _compat
from jsparse._compat import context
from jsparse.compiler.schedule import Schedule
from jsparse.primitives import tuned as module
from jsparse.primitives.tuned import Search, general, keep_schedule, searching

COLUMNS = 16
TUNED = "store A j i\nreorder k j i\nsplit k 8\nvectorize k\nwiden\nparallelize k0 owned 2048"


def tensor(rows=60, columns=50, density=0.2, seed=0):
    return jsparse.asarray(sp.random(rows, columns, density, "csr", np.float32, seed))


def dense(rows=50, columns=COLUMNS):
    return jnp.asarray(np.random.default_rng(0).standard_normal((rows, columns)), jnp.float32)


def product(A, X):
    return jsparse.einsum("ij,jk->ik", A, X)


def kernels_of(function, *operands):
    search = Search()
    with searching(search):
        jax.jit(lambda *operands: function(*operands)).lower(*operands)
    return search.kernels


def keep(schedule, function, *operands):
    """Keep a schedule for the only kernel of a function."""
    (key,) = kernels_of(function, *operands)
    keep_schedule(key, None if schedule is None else Schedule.parse(schedule))
    jsparse.clear_cache()


def planned(A, X):
    """The first steps of the schedule of A X."""
    return str(jsparse.explain("ij,jk->ik", A, X).kernels[0].schedule)


@pytest.fixture
def use():
    with jsparse.config(autotune="use"):
        yield


def check(A, X):
    np.testing.assert_allclose(product(A, X), A.todense() @ X, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(jax.jit(lambda A, X: product(A, X))(A, X), A.todense() @ X, rtol=1e-4, atol=1e-5)


def test_a_kept_schedule_is_used_only_if_asked():
    A, X = tensor(), dense()
    default = planned(A, X)
    keep(TUNED, product, A, X)
    assert planned(A, X) == default
    with jsparse.config(autotune="use"):
        assert planned(A, X).startswith("store A j i\nreorder k j i\nsplit k 8")
        check(A, X)
        np.testing.assert_allclose(jax.grad(lambda X: product(A, X).sum())(X)[:, 0], A.todense().sum(0), rtol=1e-4)
    assert planned(A, X) == default


def test_without_kept_schedules_the_scheduler_decides(use):
    A, X = tensor(), dense()
    with jsparse.config(autotune="off"):
        default = planned(A, X)
    assert planned(A, X) == default


def test_a_schedule_of_the_caller_is_first(use):
    A, X = tensor(), dense()
    keep(TUNED, product, A, X)
    asked = jsparse.Schedule().reorder("i k j").split("k", 8).vectorize("k")
    found = jsparse.explain("ij,jk->ik", A, X, schedule=asked).kernels[0].schedule
    assert str(found).startswith(str(asked))


def test_patterns_with_similar_entries_share_a_schedule(use):
    keep(TUNED, product, tensor(), dense())
    other = tensor().to_scipy()[:, np.random.default_rng(0).permutation(50)]
    other.sort_indices()
    assert planned(jsparse.asarray(other), dense()).startswith("store A j i\nreorder k j i")
    assert planned(tensor(60, 50, 0.9), dense()).startswith("reorder i k j")  # longer rows
    assert planned(tensor(500, 50), dense()).startswith("reorder i k j")  # more rows
    assert planned(tensor(), dense(50, 24)).startswith("reorder i k j")  # another number of columns


def test_a_replaced_schedule_is_forgotten(use):
    A, X = tensor(), dense()
    keep(TUNED, product, A, X)
    keep(None, product, A, X)
    assert planned(A, X).startswith("reorder i k j")


def test_dynamic_patterns_have_schedules_of_their_own(use):
    A, X = tensor().dynamic(nse=700), dense()
    default = planned(A, X)
    keep("reorder i k j\nsplit k 8\nvectorize k", product, A, X)
    assert planned(A, X) != default
    check(A, X)
    assert planned(tensor(), X).startswith("reorder i k j\nsplit")


def test_terms_of_sums_have_schedules(use):
    A, B, X = tensor(), tensor(seed=3), dense()

    def total(A, B, X):
        return jsparse.evaluate("C[i,k] = A[i,j] * X[j,k] - B[i,j] * X[j,k]", A=A, B=B, X=X)

    for key in kernels_of(total, A, B, X):
        keep_schedule(key, Schedule.parse("reorder i k j\nsplit k 8\nvectorize k"))
    jsparse.clear_cache()
    (kernel,) = jsparse.explain("C[i,k] = A[i,j] * X[j,k] - B[i,j] * X[j,k]", A=A, B=B, X=X).kernels
    assert all("split k 8" in str(schedule) for schedule in kernel.fused[1])
    np.testing.assert_allclose(total(A, B, X), (A.todense() - B.todense()) @ X, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "reorder a b c",  # of another statement
        "nonsense",
        "store Q j i",
        "reorder i k j\nvectorize k\nvectorize k",
        "unroll j",
        "reorder i j k\nparallelize k",
        "\xff",
        "specialize pattern P7",
        "store A '",
    ],
)
def test_illegal_schedules_are_not_used(use, text):
    A, X = tensor(), dense()
    (key,) = kernels_of(product, A, X)
    keep_schedule(key, text)
    jsparse.clear_cache()
    assert planned(A, X).startswith("reorder i k j")
    check(A, X)


def test_schedules_do_not_say_what_entries_are_like():
    text = "reorder i k j\nspecialize segments P0.1\nspecialize pattern P0\nspecialize threads k0 64"
    assert str(general(Schedule.parse(text))) == "reorder i k j\nspecialize threads k0 64"


def test_long_segments_are_summed_in_blocks_by_a_kept_schedule(use):
    A, X = tensor(), dense()
    keep(f"{TUNED}\nspecialize segments P0.1", product, A, X)
    assert planned(A, X).count("specialize segments") <= 1


@pytest.mark.parametrize(
    "damage", [lambda d: d[:50], lambda d: d[:-1], lambda d: d[:-9] + b"x" + d[-8:], lambda d: b""]
)
def test_damaged_files_are_ignored(use, folder, damage):
    A, X = tensor(), dense()
    keep(TUNED, product, A, X)
    for file in schedules_in(folder):
        file.write_bytes(damage(file.read_bytes()))
    jsparse.clear_cache()
    assert planned(A, X).startswith("reorder i k j")
    check(A, X)


def schedules_in(folder):
    return [file for file in folder.glob("*.kernel") if b"reorder" in file.read_bytes()]


def test_files_under_other_names_are_ignored(use, folder):
    A, X = tensor(), dense()
    keep(TUNED, product, A, X)
    (kept,) = schedules_in(folder)
    content = kept.read_bytes()
    kept.unlink()
    keep("reorder i k j", product, A, dense(50, 8))
    (other,) = schedules_in(folder)
    other.write_bytes(content)
    jsparse.clear_cache()
    assert planned(A, dense(50, 8)).startswith("reorder i k j")
    check(A, dense(50, 8))


def test_the_setting_is_part_of_the_key_of_jit():
    A, X = tensor(), dense()
    keep(TUNED, product, A, X)
    traces = []
    jitted = jax.jit(lambda A, X: traces.append(0) or product(A, X))
    jitted(A, X)
    with jsparse.config(autotune="use"):
        used = jitted(A, X)
        jitted(A, X)
    jitted(A, X)
    assert len(traces) == 2
    np.testing.assert_allclose(used, A.todense() @ X, rtol=1e-4, atol=1e-5)


def test_without_a_folder_nothing_is_kept(use):
    jsparse.config.cache_dir = None
    A, X = tensor(), dense()
    keep(TUNED, product, A, X)
    assert planned(A, X).startswith("reorder i k j")


class Client:
    """The service of a job, with an answer for each name."""

    def __init__(self):
        self.answers = {}

    def key_value_set(self, name, text, allow_overwrite=False):
        self.answers[name] = text

    def blocking_key_value_get(self, name, timeout):
        if name not in self.answers:
            raise RuntimeError("DEADLINE_EXCEEDED")
        return self.answers[name]


@pytest.fixture
def job(monkeypatch):
    """Lets this process be one of two in a job. Returns a function that says which, and the service."""
    client = Client()
    monkeypatch.setattr(context.distributed, "global_state", SimpleNamespace(client=client))
    monkeypatch.setattr(jax, "process_count", lambda: 2)

    def process(number):
        monkeypatch.setattr(context, "_agreed", {})
        monkeypatch.setattr(jax, "process_index", lambda: number)
        jsparse.clear_cache()

    return process


def test_the_schedule_of_process_0_counts(use, job):
    A, X = tensor(), dense()
    (key,) = kernels_of(product, A, X)
    keep_schedule(key, Schedule.parse(TUNED))
    job(0)
    assert planned(A, X).startswith("store A j i")
    keep_schedule(key, None)  # process 1 has a folder of its own
    job(1)
    assert planned(A, X).startswith("store A j i")


def test_process_0_without_a_schedule_counts(use, job):
    A, X = tensor(), dense()
    job(0)
    assert planned(A, X).startswith("reorder i k j")
    keep(TUNED, product, A, X)
    assert planned(A, X).startswith("reorder i k j")  # a job keeps the schedules that it began with
    job(1)
    assert planned(A, X).startswith("reorder i k j")


def test_a_process_that_waits_in_vain_says_so(use, job):
    job(1)
    with pytest.raises(jsparse.errors.JsparseError, match="Expected process 0 to plan the same kernel as process 1"):
        product(tensor(), dense())


def test_processes_that_jax_did_not_start_agree_on_nothing():
    assert _compat.of_process_0("key", "text") == "text"


def test_nothing_is_read_by_default(monkeypatch):
    monkeypatch.setattr(module, "_load_schedule", None)
    check(tensor(), dense())
