"""Systems, builds of Python and releases of JAX: requirements, the check at import and the documentation agree."""

import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import pytest
from packaging.requirements import Requirement

from jsparse._supported import NEWEST, OLDEST, require_jax, require_system

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["jax", "jaxlib"])
def specifier(request):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (specifier,) = (
        requirement.specifier
        for requirement in map(Requirement, project["dependencies"])
        if requirement.name == request.param
    )
    return specifier


def release(major, minor, patch=0):
    return f"{major}.{minor}.{patch}"


def test_the_requirement_begins_with_the_range_and_has_no_end(specifier):
    minors = [minor for minor in range(100) if release(0, minor) in specifier]
    assert minors == list(range(OLDEST[1], 100))
    assert OLDEST < NEWEST
    assert release(1, 0) in specifier


def test_the_workflow_runs_the_ends_of_the_range():
    workflow = (ROOT / ".github/workflows/ci.yml").read_text()
    for version in (OLDEST, NEWEST):
        assert f'jax: "{release(*version)}"' in workflow


def test_the_installed_release_is_tested():
    assert OLDEST <= jax.__version_info__[:2] <= NEWEST


def test_the_documentation_states_the_range():
    oldest, newest = (".".join(map(str, version)) for version in (OLDEST, NEWEST))
    assert f"JAX {oldest} to {newest}" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("version", [(0, 8, 0), (0, 8, 3), (0, 9, 0, 1), (*NEWEST, 0), (*NEWEST, 7)])
def test_tested_releases_are_accepted(monkeypatch, version):
    monkeypatch.setattr(jax, "__version_info__", version)
    require_jax()


@pytest.mark.parametrize("version", [(NEWEST[0], NEWEST[1] + 1, 0), (1, 0, 0)])
def test_newer_releases_are_accepted_with_a_warning(monkeypatch, version):
    monkeypatch.setattr(jax, "__version_info__", version)
    monkeypatch.setattr(jax, "__version__", release(*version))
    with pytest.warns(UserWarning, match=rf"tested with JAX 0\.8 to .*, but JAX {release(*version)} is installed"):
        require_jax()


def test_importing_with_an_older_release_says_so():
    program = 'import jax; jax.__version__, jax.__version_info__ = "0.7.2", (0, 7, 2); import jsparse'
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith("ImportError: jsparse works with JAX 0.8 to 0.")


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_systems_that_work(monkeypatch, system):
    monkeypatch.setattr(sys, "platform", system)
    require_system()


@pytest.mark.parametrize(
    ("fake", "named"),
    [
        ('import sys; sys.platform = "win32"', "this system is Windows"),
        ("import sysconfig; sysconfig.get_config_var = lambda name: 1", "this build is free-threaded"),
    ],
)
def test_importing_refuses_before_jax_is_imported(fake, named):
    program = f"""
import sys
{fake}
try:
    import jsparse
except ImportError as error:
    assert {named!r} in str(error), error
else:
    raise AssertionError("nothing was refused")
assert "jax" not in sys.modules and "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
