"""Functions that build tensors: from nothing, from vectors, and from other tensors."""
