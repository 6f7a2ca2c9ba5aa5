"""The public functions, and the methods of SparseTensor that are not defined in `jsparse.tensor`."""
