"""The explanations of `jsparse.explain`: kernels of a statement or a program, their operations and traffic."""
