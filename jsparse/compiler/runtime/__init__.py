"""From recipes to calls that XLA makes: the kernels of this process, the arrays that are bound to them."""
