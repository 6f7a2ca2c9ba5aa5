"""Keys in the paths of pytrees that name the metadata which leaves belong to."""

from __future__ import annotations

import jax

__all__ = ["DigestKey"]


class DigestKey(jax.tree_util.GetAttrKey):  # type: ignore[misc]  # jax does not type it
    """The key of an attribute whose arrays belong to metadata with that digest.

    Checkpoints file leaves by the names of keys, and restore them by name into a tensor that the caller has. So the
    name contains a digest of the metadata, `values@3bddd2d59fc4`: values of one pattern are not found by a tensor on
    another one. Messages show the key as the plain attribute, `.values`.
    """

    @classmethod
    def of(cls, attribute: str, digest: str) -> DigestKey:
        """The key of an attribute. 12 digits of the digest tell patterns apart."""
        return cls(f"{attribute}@{digest[:12]}")

    def __str__(self) -> str:
        attribute: str = self.name.partition("@")[0]
        return f".{attribute}"
