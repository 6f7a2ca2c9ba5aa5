"""From text to `Assignment`."""

from jsparse.notation.assignment import Access, Assignment, Index, IndexVar
from jsparse.notation.einsum import parse_einsum

__all__ = ["Access", "Assignment", "Index", "IndexVar", "parse_einsum"]
