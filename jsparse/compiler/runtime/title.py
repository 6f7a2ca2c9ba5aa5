"""What a call computes, as one line of text: the name of its kernel in profiles."""

from __future__ import annotations

from jsparse.base.memo import remembered
from jsparse.compiler.problem import Problem
from jsparse.compiler.runtime.assembly_call import is_assembly, read_assembly
from jsparse.compiler.runtime.recipe import read_recipe
from jsparse.compiler.runtime.routine import is_routine, read_routine

__all__ = ["title_of"]


@remembered(maxsize=1024)
def title_of(recipe: str) -> str:
    """The statements of a recipe, or what a routine does.

    `C[i, k] = A[i, j] * B[j, k]`, for example. Of a kernel that finds a pattern, also what it finds.

    Raises JsparseError for text that is no recipe.
    """
    if is_routine(recipe):
        return read_routine(recipe).title
    if is_assembly(recipe):
        call = read_assembly(recipe)
        found = dict.fromkeys(_title(term.problem) for term in call.terms)
        return "; ".join(found)
    return _title(read_recipe(recipe)[0])


def _title(problem: Problem) -> str:
    if problem.wants_values:
        values = "; ".join(str(statement) for statement in problem.statements)
        return f"{values}, with its pattern" if problem.is_assembly else values
    walks = [f"P{n}[{', '.join(problem.level_variables[n])}]" for n in range(len(problem.patterns))]
    terms = (" * ".join(walks[n] for n in statement.patterns) or "1" for statement in problem.statements)
    return f"the {problem.output} of {problem.target} = {' + '.join(terms)}"
