"""Graph convolutions: sums, means and maxima of the messages of neighbours."""
