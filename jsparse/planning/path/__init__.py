"""The contraction path of a product: the steps that come before its last loop nest.

estimates   the operands and results of steps, how many combinations of entries meet, and how many coordinates the
            combinations reach
prices      the work of one loop nest
search      the cheapest sequence of steps
"""
