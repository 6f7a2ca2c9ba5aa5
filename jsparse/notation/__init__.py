"""Parsers: from text to `Assignment` (an einsum) and `Statement` (tensor index notation)."""

from jsparse.notation.assignment import Access, Assignment, Index, IndexVar
from jsparse.notation.einsum import parse_einsum, read_sublists
from jsparse.notation.evaluate import parse_statement
from jsparse.notation.statement import Product, Statement
