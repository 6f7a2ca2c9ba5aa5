"""The output of a program: whether it is sparse, in which format, and how its pattern is found."""
