"""Functions that make patterns: bands, blocks, and what attention uses. They are public in `jsparse.pattern`."""
