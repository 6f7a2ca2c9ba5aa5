"""The run time: recipes, compiled kernels, bound arrays, and the calls that XLA makes."""
