"""Graph convolutions: sums, means and maxima of what neighbours send."""
