"""The contraction path of a product: the steps that come before its last loop nest.

items       operands and results of steps, with the known facts about their entries
estimates   how many combinations of entries meet, and how many coordinates they reach
prices      the work of one loop nest
search      the cheapest sequence of steps
"""
