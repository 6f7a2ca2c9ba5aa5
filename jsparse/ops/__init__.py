"""The public functions, and the methods of SparseTensor that compute."""
