"""What the backend says about programs."""

import jsparse

__all__ = ["calls_of_ours", "has_kernels"]


def has_kernels() -> bool:
    """Whether programs have kernels of jsparse, not XLA operations in their place. What tests assert of kernels, as
    their number and what is in memory between them, is true only then; numbers are the same in any case."""
    return not jsparse.config.is_portable


def calls_of_ours(text: str) -> int:
    """The number of custom calls of jsparse in a program in StableHLO."""
    return text.count("stablehlo.custom_call @jsparse")
