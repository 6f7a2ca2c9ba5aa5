"""Whether a result is sparse, in which format, and how its pattern is found."""
