"""What `jsparse.explain` shows: the kernels of a statement or of a program, and what they compute and move."""
