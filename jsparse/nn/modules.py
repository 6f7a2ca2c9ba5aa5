"""Helpers to make Flax modules from layers: the list of layers, and the docstrings of the modules.

The docstring of a layer has a summary, an example of four lines, and a section "Args:" with an entry for each option.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from inspect import getdoc
from types import ModuleType

from jsparse.nn.layer import Layer

COMMON = """
dtype: the dtype of the computation; by default the promoted dtype of x and the parameters.
param_dtype: the dtype of the parameters.
kernel_init, attention_init, bias_init: functions (key, shape, dtype) for kernels, vectors of attention, and biases.
"""
"""The options that modules have besides their layers' options."""


def layers_of(module: ModuleType) -> list[type[Layer]]:
    """List the layers that a Python module exports."""
    return [x for x in vars(module).values() if isinstance(x, type) and issubclass(x, Layer) and x is not Layer]


def documentation(
    layer: type[Layer], example: Sequence[str], call: str, more: str, without: Collection[str] = ()
) -> str:
    """Return the docstring of the Flax module of a layer.

    Args:
        layer: the layer. Its docstring provides everything that the other arguments do not.
        example: the lines of the example that make the module; {name} and {args} stand for the layer's name and
            arguments.
        call: how the example calls the module with a graph and x.
        more: the entries of "Args:" for the options that only the module has.
        without: options that the module does not have.
    """
    name = layer.__name__
    head, _, sections = (getdoc(layer) or "").partition("\n\nArgs:\n")
    entries = re.split(r"\n    (?=\S)", sections.partition("\n\n")[0].strip())
    match = re.search(rf">>> layer = jsparse\.nn\.{name}\((.*)\)\n", head)
    if match is None:
        return head  # python -OO drops docstrings
    args = match[1].removeprefix("4, ") if "in_features" in without else match[1]
    lines = "\n    ".join(line.format(name=name, args=args) for line in example)
    head = head.replace(match[0], lines + "\n").replace("layer.apply(layer.init(jax.random.key(1)), graph, x)", call)
    kept = [entry for entry in entries if entry.partition(":")[0] not in without]
    options = "\n".join("    " + line for line in "\n".join([*kept, more.strip()]).splitlines())
    return (
        f"{head}\n\nArgs:\n{options}\n\nCalls raise ShapeError for shapes that do not fit, and DTypeError for a dense "
        "graph.\n"
    )
