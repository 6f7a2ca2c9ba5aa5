"""Prints the tests that the changes of a branch concern: `python tools/changed.py [REVISION]`.

Changes are those of the working tree since the branch left the main branch, or since REVISION. A package at the edge
(`EDGE`) concerns the tests that use it, or use a package above it that does, by the order in pyproject.toml. A
changed test concerns itself, and a helper of tests those that import it. Any other change of the package, of what it
is built from or of the settings of tests concerns all tests. It prints paths for pytest: `tests` for all, or nothing.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from jsparse._names import PLACES  # noqa: E402

EDGE = {"adapters", "equinox", "graph", "io", "lineax", "linen", "nn", "nnx", "optax", "pattern", "sharded"}
EDGE |= {"sparsification"}

# Tests of pages, examples and stubs, which use every package.
OF_EVERYTHING = ("tests/docs", "tests/examples", "tests/packaging", "tests/typed")

# Files that no test but those reads.
UNTESTED = re.compile(
    r"docs/|examples/|benchmarks/|tools/|licenses/|recipe/|\.github/|\.ci/|[^/]*\.(md|cff)$|mkdocs\.yml|Makefile"
)


def changed_files(revision: str | None = None) -> list[str]:
    """The paths that differ from the revision, by default from where the branch left the main branch."""
    if revision is None:
        branches = git("for-each-ref", "--format=%(refname:short)", "refs/remotes/origin/main", "refs/heads/main")
        revision = git("merge-base", "HEAD", branches[0])[0] if branches else "HEAD"
    return git("diff", "--name-only", revision) + git("ls-files", "--others", "--exclude-standard")


def git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def concerned_tests(changes: list[str]) -> list[str]:
    """Paths of tests for paths that changed, `["tests"]` if all tests are concerned."""
    packages, tests = set(), set()
    for path in changes:
        top, _, rest = path.partition("/")
        if top == "jsparse":
            package = rest.partition("/")[0].removesuffix(".py")
            if package not in EDGE:
                return ["tests"]
            packages |= packages_above(package)
        elif top == "tests" and rest.count("/") and not rest.endswith("conftest.py"):
            tests |= tests_of_file(path)
        elif not UNTESTED.match(path):
            return ["tests"]
    tests |= {str(test) for test in test_files() if used_packages(test) & packages}
    everything = OF_EVERYTHING if changes else ()
    return sorted({test for test in tests if not test.startswith(everything or "?")} | set(everything))


@cache
def packages_above(package: str) -> frozenset[str]:
    """The package, and those above it in the order of packages that use it, directly or not."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        layers = tomllib.load(file)["tool"]["importlinter"]["contracts"][0]["layers"]
    order = [layer.split(" | ") for layer in layers]
    place = next((n for n, layer in enumerate(order) if package in layer), 0)
    users = {package}
    for layer in reversed(order[:place]):
        for above in layer:
            files = [*(ROOT / "jsparse" / above).rglob("*.py"), ROOT / "jsparse" / f"{above}.py"]
            if any(names_in(file) & users for file in files if file.exists()):
                users.add(above)
    return frozenset(users)


@cache
def names_in(file: Path) -> frozenset[str]:
    """The packages of jsparse whose modules or public names a file mentions."""
    text = file.read_text(encoding="utf-8")
    names = re.findall(r"\bjsparse\.(\w+)", text)
    for imported in re.findall(r"from jsparse import (\([^)]*\)|.*)", text):
        names += re.findall(r"\w+", imported)
    return frozenset(PLACES.get(name, name).removeprefix("jsparse.").partition(".")[0] for name in names)


@cache
def helpers_of(file: Path) -> frozenset[Path]:
    """The modules beside the tests that a file imports, directly or not, and itself."""
    found = {file}
    for package, names in re.findall(
        r"^\s*from ([\w.]+) import (\([^)]*\)|.*)", file.read_text(encoding="utf-8"), re.M
    ):
        modules = [package, *(f"{package}.{name}" for name in re.findall(r"\w+", names))]
        for path in (ROOT / "tests" / f"{module.replace('.', '/')}.py" for module in modules):
            if path.exists() and path not in found:
                found |= helpers_of(path)
    return frozenset(found)


def test_files() -> list[Path]:
    return [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")]


def used_packages(test: Path) -> frozenset[str]:
    """What the test and its helpers mention, and the scripts beside it, which it may start."""
    scripts = {file for file in (ROOT / test.parent).rglob("*.py") if not file.name.startswith("test_")}
    return frozenset().union(*(names_in(file) for file in helpers_of(ROOT / test) | scripts))


def tests_of_file(path: str) -> set[str]:
    """The tests that a file below tests/ concerns: itself, those that import it, or for data those of its folder."""
    name = Path(path)
    if name.suffix != ".py":
        return {str(test) for test in test_files() if test.parent == name.parent or test.parent == name.parent.parent}
    return {str(test) for test in test_files() if ROOT / name in helpers_of(ROOT / test)}


if __name__ == "__main__":
    print(*concerned_tests(changed_files(*sys.argv[1:])))
