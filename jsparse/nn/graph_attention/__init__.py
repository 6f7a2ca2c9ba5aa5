"""Graph attention: sums over neighbours, weighted by a softmax of scores."""
