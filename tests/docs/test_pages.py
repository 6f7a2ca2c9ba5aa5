"""Every page: its code runs from top to bottom as one program, and its links lead to pages and headings."""

import re
import sys
import tomllib
from contextlib import nullcontext

import jax
import matplotlib as mpl
import pytest
from docs.pages import FENCE, PAGES, ROOT, blocks, run
from docs.promises import CHECKS

import jsparse
import jsparse.linen
import jsparse.nnx
from jsparse.adapters.accelerate_jax_sparse.register import accelerated

EXTRAS = re.compile(r"^ *(?:import|from) (equinox|flax|jraph|lineax|networkx|optax)\b", re.MULTILINE)


@pytest.fixture
def restored():
    """Undo the settings that pages change."""
    x64 = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", x64)
    jsparse.config.log_compiles = False


@pytest.mark.filterwarnings("ignore::DeprecationWarning:orbax", "ignore::UserWarning:orbax")
@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))])
def test_code_runs(page, tmp_path, monkeypatch, restored):
    code = "\n".join(text for _, text in blocks(page))
    for library in sorted(set(EXTRAS.findall(code))):
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mpl.use("Agg")
    with accelerated() if "accelerate_jax_sparse()" in code else nullcontext():  # which undoes it
        given = run(page)
    if page in CHECKS:
        CHECKS[page](given)


MODULES = re.compile(r"^ *(?:>>> )?(?:import|from) (\w+(?:\.\w+)?)", re.MULTILINE)
OURS = {"nnx": "flax", "linen": "flax", "optax": "optax", "equinox": "equinox", "lineax": "lineax"}
BRINGS = {"flax": ["optax", "orbax"], "lineax": ["equinox"], "scikit-learn": ["sklearn"]}  # names that are imported


def needed(code):
    """What code imports beside what jsparse requires, by the names of modules."""
    found = {name.partition(".")[0] for name in MODULES.findall(code)}
    found |= {OURS[name] for name in re.findall(r"\bjsparse\.(\w+)", code) if name in OURS}
    found |= {"flatbuffers"} if ".serialize(" in code else set()  # JAX imports it there
    return found - sys.stdlib_module_names - {"jax", "jsparse", "numpy", "scipy"}


def installed(text):
    """What the commands of a page install beside what jsparse requires, by the names of modules."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    waiting = re.findall(r"jsparse\[[\w,]+\]", text)
    lists = re.findall(r"\[extras?\]\([^)]*#install\)((?:\s+(?:and\s+)?`\w+`,?)+)", text)  # the [extras](…) `a` and `b`
    waiting += [f"jsparse[{name}]" for names in lists for name in re.findall(r"`(\w+)`", names)]
    waiting += [name for command in re.findall(r"pip install ([^`\n]*)", text) for name in command.split()]
    found = set()
    while waiting:
        name, _, rest = waiting.pop().strip("'").partition("[")
        if rest and name == "jsparse":
            waiting += [one for extra in rest.rstrip("]").split(",") for one in extras[extra]]
        name = re.split("[<>=;]", name)[0]
        found |= {name, *BRINGS.get(name, [])}
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))])
def test_page_says_what_to_install(page):
    """Each package that its code imports, as an extra of jsparse or by name."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not needed("\n".join(code for _, code in blocks(page))) - installed(text)


def headings(text):
    """The anchors of a page, as GitHub and the site make them."""
    found = set(re.findall(r'\bid="([^"]+)"', text))
    for title in re.findall(r"^#+ (.*)$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_links(page):
    """Relative links, with their anchors."""
    text = re.sub(r"`[^`\n]*`", "`", FENCE.sub("", (ROOT / page).read_text(encoding="utf-8")))
    targets = [target for target in re.findall(r"\]\(<?([^)\s>]+)[^)]*\)", text) if not re.match(r"[a-z]+:", target)]
    broken = []
    for target in targets:
        path, _, anchor = target.partition("#")
        found = ROOT / page if not path else (ROOT / page).parent / path
        if not found.exists() or (anchor and anchor not in headings(found.read_text(encoding="utf-8"))):
            broken.append(target)
    assert not broken


FUNCTIONS = [  # of a page, which names all of them
    ("docs/how_to/layers.md", (jsparse.nn, jsparse.nnx, jsparse.linen), {"basis_kernel", "restrict_state"}),
    ("docs/how_to/graphs.md", (jsparse.graph,), set()),
]


@pytest.mark.parametrize("page, modules, others", FUNCTIONS)
def test_page_names_all_functions(page, modules, others):
    text = (ROOT / page).read_text(encoding="utf-8")
    layers = ("Conv", "Block", "Linear", "Encoder")
    public = {name for module in modules for name, item in vars(module).items() if callable(item) and name[0] != "_"}
    named = {name for name in public if name.islower() or name.endswith(layers)}
    assert len(named) > 15
    assert not [name for name in named - others if name not in text]


def significant(text, digits=4):
    """A text with its numbers rounded to so many digits: the last ones depend on the width of a machine's vectors."""
    return re.sub(r"\d+\.\d+(?:e[-+]\d+)?", lambda number: f"{float(number[0]):.{digits}g}", text)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_first_program_prints_what_the_page_shows(page, capsys):
    run(page)
    text = (ROOT / page).read_text(encoding="utf-8")
    (shown,) = (fence[4] for fence in FENCE.finditer(text) if fence[3] == "text")
    assert significant(capsys.readouterr().out).split() == significant(shown).split()
