"""Large sparse matrices whose rows are divided among the devices of a mesh: `jsparse.shard`."""

from jsparse.sharded import build, operations  # they enter the functions of sharded tensors

__all__ = ["build", "operations"]
