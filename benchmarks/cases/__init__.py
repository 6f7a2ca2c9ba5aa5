"""The cases, one small file each. A file defines `cases()`, which names its cases without computing anything."""

from __future__ import annotations

import importlib
import pkgutil

from harness import Case

__all__ = ["select"]


def select(wanted: list[str]) -> list[Case]:
    """The cases with these names or in files with these names; all cases if `wanted` is empty."""
    files = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    found = [(file, case) for file in files for case in importlib.import_module(f"cases.{file}").cases()]
    unknown = [name for name in wanted if all(name not in (file, case.name) for file, case in found)]
    if unknown:
        names = ", ".join(dict.fromkeys(name for file, case in found for name in (file, case.name)))
        raise LookupError(f"Expected names of cases or of their files, {names}, but got {', '.join(unknown)}.")
    return [case for file, case in found if not wanted or file in wanted or case.name in wanted]
