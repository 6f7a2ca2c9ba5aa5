"""The contraction path of a product: the steps that come before its last loop nest.

estimates   the operands and results of steps; the number of combinations of entries that meet; the number of
            coordinates that these combinations reach
prices      the work of one loop nest
search      the cheapest sequence of steps
"""
