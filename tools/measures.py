"""Figures about the code of folders: `python tools/measures.py [--names] [FOLDER ...]`.

Lines of code are lines with a token that is neither a comment nor part of a docstring. `--names` prints the functions
whose name begins with a participle, and the private functions with one caller and at most four lines, as well. Without
folders, it prints the figures of jsparse, tools and tests.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent

# Participles that do not end in -ed. `read`, `cut`, `split`, `set`, `put`, `let`, `shut` are verbs as well.
IRREGULAR = re.compile(
    "been|begun|bound|broken|brought|built|caught|chosen|done|drawn|driven|fallen|felt|found|given|gone|grown|heard|"
    "held|hidden|kept|known|laid|led|left|lent|lost|made|meant|met|paid|proven|said|seen|sent|shown|sold|spent|spun|"
    "stuck|sunk|swept|taken|thought|thrown|told|torn|undone|understood|unwound|won|worn|woven|written"
)
VERBS = {"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed", "wed"}
VAGUE = {"found", "made", "given", "known", "own", "rest", "whole", "left", "kept", "wanted"}
PATTERN_CLASSES = {"Pattern", "DynamicPattern", "PatternType", "StorageType", "Composition", "ShardedTensor"}


@dataclass(frozen=True)
class Source:
    """A file, its tree, and the line numbers that have code."""

    path: Path
    text: str
    tree: ast.Module

    @staticmethod
    def read(path: Path) -> Source:
        text = path.read_text()
        return Source(path, text, ast.parse(text))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[ast.FunctionDef]:
        return [node for node in self.nodes if isinstance(node, ast.FunctionDef)]

    @cached_property
    def lines_of_code(self) -> set[int]:
        blank = {
            tokenize.COMMENT,
            tokenize.NL,
            tokenize.NEWLINE,
            tokenize.INDENT,
            tokenize.DEDENT,
            tokenize.ENDMARKER,
            tokenize.ENCODING,
        }
        lines = {
            line
            for token in tokenize.generate_tokens(io.StringIO(self.text).readline)
            if token.type not in blank
            for line in range(token.start[0], token.end[0] + 1)
        }
        return lines - self.docstring_lines

    @cached_property
    def docstring_lines(self) -> set[int]:
        """The lines of strings that are statements, as docstrings are."""
        return {
            line
            for node in self.nodes
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }

    def comment_lines(self) -> int:
        return sum(line.lstrip().startswith("#") for line in self.text.splitlines())


def is_participle(name: str) -> bool:
    """Whether the first word of a function's name is a participle."""
    word = name.strip("_").split("_")[0]
    return bool(IRREGULAR.fullmatch(word)) or (word.endswith("ed") and len(word) > 3 and word not in VERBS)


def bound_names(function: ast.FunctionDef) -> Iterator[str]:
    """The names that a function binds, without its parameters and without functions inside it."""
    nodes = list(ast.iter_child_nodes(function))
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        nodes += ast.iter_child_nodes(node)


def body_lines(function: ast.FunctionDef, code: set[int]) -> int:
    first = function.body[0].lineno
    return len(code & set(range(first, (function.end_lineno or first) + 1)))


def forks(sources: list[Source]) -> Counter[str]:
    """The tests of a pattern's class, `isinstance` or `type(x) is`, by class; asserts count as well."""
    counts = Counter[str]()
    for source in sources:
        for node in source.nodes:
            tested: ast.AST | None = None
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                tested = node.args[1]
            elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Call):
                is_type = isinstance(node.left.func, ast.Name) and node.left.func.id == "type"
                tested = node.comparators[0] if is_type else None
            if tested is not None:
                names = {name.id for name in ast.walk(tested) if isinstance(name, ast.Name)} & PATTERN_CLASSES
                counts.update(names)
                counts["all"] += bool(names)
            if isinstance(node, ast.Attribute) and node.attr in ("known", "concrete", "is_dynamic"):
                counts[f".{node.attr}"] += 1
    return counts


def single_use(sources: list[Source]) -> list[tuple[str, int]]:
    """The private functions of a module that are named once in it, outside their own body, with lines of their body."""
    rows = []
    for source in sources:
        code = source.lines_of_code
        uses = Counter(node.id for node in source.nodes if isinstance(node, ast.Name))
        for function in source.tree.body:
            if isinstance(function, ast.FunctionDef) and re.match("_[a-z]", function.name):
                inside = sum(isinstance(n, ast.Name) and n.id == function.name for n in ast.walk(function))
                if uses[function.name] - inside == 1 and not function.decorator_list:
                    rows.append(
                        (
                            f"{source.path.relative_to(ROOT)}:{function.lineno}: {function.name}",
                            body_lines(function, code),
                        )
                    )
    return rows


def figures(folder: str) -> Iterator[tuple[str, str]]:
    """The figures of one folder, each with its name."""
    sources = [Source.read(path) for path in sorted((ROOT / folder).rglob("*.py")) if "__pycache__" not in path.parts]
    lines = [source.text.count("\n") for source in sources]
    code = sum(len(source.lines_of_code) for source in sources)
    functions = [function for source in sources for function in source.functions]
    names = [function.name for function in functions]
    participles = sorted(name for name in names if is_participle(name))
    bodies = [body_lines(f, source.lines_of_code) for source in sources for f in source.functions]
    local_names = Counter(name for function in functions for name in bound_names(function))
    vague = sum(local_names[name] for name in VAGUE)
    classes = Counter(node.name for source in sources for node in source.nodes if isinstance(node, ast.ClassDef))
    helpers = single_use(sources)
    small = [row for row in helpers if row[1] <= 4]
    yield "files; lines; median and largest file", f"{len(sources)}; {sum(lines):,}; {median(lines):.0f}, {max(lines)}"
    yield "lines of code", f"{code:,}"
    yield (
        "lines of docstrings; of comments",
        (f"{sum(len(s.docstring_lines) for s in sources):,}; {sum(s.comment_lines() for s in sources):,}"),
    )
    yield (
        "functions; median body; over 25 and over 40 lines",
        (f"{len(functions):,}; {median(bodies):.0f}; {sum(n > 25 for n in bodies)}, {sum(n > 40 for n in bodies)}"),
    )
    yield "names that begin with a participle", f"{len(participles)} = {len(participles) / len(names):.1%}"
    yield (
        "vague locals; `found`, `made`, `given`",
        (
            f"{vague / max(local_names.total(), 1):.1%}; "
            f"{', '.join(str(local_names[name]) for name in ('found', 'made', 'given'))}"
        ),
    )
    yield "private functions with one use; of at most 4 lines", f"{len(helpers)}; {len(small)}"
    yield "class names in several files", ", ".join(sorted(n for n, count in classes.items() if count > 1)) or "none"
    yield "tests of a pattern's class", ", ".join(f"{name} {n}" for name, n in forks(sources).most_common())
    if "--names" in sys.argv:
        for source in sources:
            participles_here = [f"{f.name}:{f.lineno}" for f in source.functions if is_participle(f.name)]
            if participles_here:
                yield f"participles in {source.path.relative_to(ROOT)}", " ".join(participles_here)
        for place, count in small:
            yield "small", f"{place} ({count})"


def main() -> None:
    """Print the figures of each folder."""
    for folder in [name for name in sys.argv[1:] if not name.startswith("-")] or ["jsparse", "tools", "tests"]:
        print(f"{folder}/")
        for name, value in figures(folder):
            print(f"  {name}: {value}")


if __name__ == "__main__":
    main()
