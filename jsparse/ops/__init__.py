"""The public functions, and the methods that SparseTensor gets from outside its package."""
