"""Functions that make patterns: bands, blocks, and masks of attention. They are public in `jsparse.pattern`."""
