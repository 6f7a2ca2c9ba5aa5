"""The recipe of the conda package agrees with pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]


def rendered(recipe):
    """The recipe, once names have their values. Calls such as `compiler('cxx')` are left as texts."""
    values = dict(re.findall(r'^{% set (\w+) = "([^"]*)" %}$', recipe, re.MULTILINE))
    lines = (line for line in recipe.splitlines() if not line.startswith("{%"))
    found = re.compile(r"{{ (\w+)(\[\d\]|\(.*?\))? }}")

    def value(match):
        name, rest = match[1], match[2] or ""
        return name + rest if rest.startswith("(") else values.get(name, "")[: 1 if rest else None]

    return yaml.safe_load("\n".join(found.sub(value, line) for line in lines))


@pytest.fixture(scope="module")
def recipe():
    return rendered((ROOT / "recipe" / "meta.yaml").read_text())


def requirements(texts):
    """The specifier of each requirement, by name. In conda, a space is between them."""
    parsed = map(Requirement, texts)
    return {one.name: str(one.specifier) for one in parsed}


def test_the_package_requires_what_the_wheel_requires(recipe):
    run = requirements(recipe["requirements"]["run"])
    assert run.pop("python") == ""  # conda-forge chooses it, and the recipe skips those that are too old
    assert run == requirements(PROJECT["dependencies"])


def test_it_is_built_with_what_the_wheel_is_built_with(recipe):
    host = requirements(recipe["requirements"]["host"])
    assert host.pop("python") == host.pop("pip") == ""
    assert host == requirements(PYPROJECT["build-system"]["requires"])
    (line,) = (x for x in (ROOT / "CMakeLists.txt").read_text().splitlines() if "cmake_minimum_required" in x)
    assert f"cmake >={re.search(r'[0-9.]+', line)[0]}" in recipe["requirements"]["build"]


def test_it_skips_the_same_releases_of_python():
    text = (ROOT / "recipe" / "meta.yaml").read_text()
    major, minor = re.fullmatch(r">=(\d+)\.(\d+)", PROJECT["requires-python"]).groups()
    assert re.search(r"skip: true  # \[.*\bpy<(\d+)", text)[1] == major + minor
    assert PYPROJECT["tool"]["cibuildwheel"]["build"][0] == f"cp{major}{minor}-*"


def test_it_says_of_the_package_what_pyproject_says(recipe):
    about = recipe["about"]
    assert about["home"] == PROJECT["urls"]["Source"]
    assert about["summary"] == PROJECT["description"]
    assert about["license"] == PROJECT["license"]
    assert set(about["license_file"]) == {
        path.relative_to(ROOT).as_posix() for pattern in PROJECT["license-files"] for path in ROOT.glob(pattern)
    }


def test_files_that_it_runs_exist(recipe):
    for name in recipe["test"]["source_files"]:
        assert (ROOT / name).is_file()
        assert any(name in command for command in recipe["test"]["commands"])


def test_its_source_is_the_sdist(recipe):
    name, version = recipe["package"]["name"], recipe["package"]["version"]
    assert name == PROJECT["name"]
    assert recipe["source"]["url"].endswith(f"/{name[0]}/{name}/{name}-{version}.tar.gz")
    assert re.fullmatch("[0-9a-f]{64}", recipe["source"]["sha256"])
