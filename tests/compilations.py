"""Counts the programs that XLA compiles in this process."""

from __future__ import annotations

import jax

__all__ = ["COMPILED"]

COMPILED: list[str] = []
"""This grows with each program that XLA compiles."""


def _listen(name: str, *_: object, **__: object) -> None:
    if name == "/jax/core/compile/backend_compile_duration":
        COMPILED.append(name)


jax.monitoring.register_event_duration_secs_listener(_listen)
