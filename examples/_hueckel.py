"""Random planar molecules, and what Hückel's theory says of their π electrons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

__all__ = ["KINDS", "Molecule", "double_bonds", "molecules"]

# The kinds of atoms: carbon, nitrogen with and without a double bond, oxygen with and without one.
KINDS = 5
SHARES = 0.84, 0.05, 0.04, 0.04, 0.03
NEIGHBOURS = (1, 2, 3), (2,), (1, 2, 3), (1,), (1, 2)  # how many of them an atom can have, besides hydrogen
ELECTRONS = np.array([1, 1, 2, 1, 2])
# The energy of an atom, and the factor of its bonds with carbon, in units of β relative to carbon: Van-Catledge, "A
# Pariser-Parr-Pople-based set of Hückel molecular orbital parameters", J. Org. Chem. 45, 1980.
ENERGY, FACTOR = np.array([0, 0.51, 1.37, 0.97, 2.09]), np.array([1, 1.02, 0.89, 1.06, 0.66])
# How a molecule grows from a bond: by how many atoms, each after a turn by an angle. A side chain grows to either side;
# rings of five and six begin with the bond.
GROWTH = (1, 60), (1, -60), (3, 72), (4, 60), (4, 60)
STABLE = 0.5  # the least gap of a molecule


class Molecule(NamedTuple):
    """A molecule of n atoms.

    Attributes:
        kinds: the kind of each atom.
        places: where it is in the plane, as a complex number.
        matrix: Hückel's matrix H (n, n), of energies of atoms and elements for bonds.
        density: the density matrix (n, n): its diagonal counts the π electrons of atoms, its other elements are bond
            orders.
        gap: the energy between the highest full orbital and the lowest empty one.
    """

    kinds: np.ndarray
    places: np.ndarray
    matrix: np.ndarray
    density: np.ndarray
    gap: float

    @property
    def charges(self) -> np.ndarray:
        """The charge of each atom."""
        return ELECTRONS[self.kinds] - np.diag(self.density)

    def moments(self, count: int) -> np.ndarray:
        """The elements (n, count) on the diagonals of Chebyshev polynomials of H, scaled to eigenvalues in (-1, 1)."""
        scaled = self.matrix / 3.2
        before, now, diagonals = np.eye(len(scaled)), scaled, list[np.ndarray]()
        for _ in range(count):
            diagonals.append(np.diag(now))
            before, now = now, 2 * scaled @ now - before
        return np.stack(diagonals, 1)


def molecules(seed: int) -> Iterator[Molecule]:
    """Draw stable molecules that can be written with single and double bonds, each once."""
    rng, known = np.random.default_rng(seed), set[bytes]()
    while True:
        places, bonds = _skeleton(rng, int(rng.integers(10, 21)))
        for kinds in rng.choice(KINDS, (5, len(places)), p=SHARES):
            for atom in np.flatnonzero(kinds):
                if bonds[atom].sum() not in NEIGHBOURS[kinds[atom]] or kinds[bonds[atom]].any():
                    kinds[atom] = 0
            if not _pairs_up(bonds, ELECTRONS[kinds] == 1):
                continue
            one = _hueckel(kinds, places, bonds)
            spectrum = np.linalg.eigvalsh(one.matrix).round(6).tobytes()  # does not depend on the order of atoms
            if one.gap >= STABLE and spectrum not in known:
                known.add(spectrum)
                yield one
                break  # others with this skeleton would be too similar


def _hueckel(kinds: np.ndarray, places: np.ndarray, bonds: np.ndarray) -> Molecule:
    """Two electrons fill each of the orbitals, which are the eigenvectors of H, from the lowest on."""
    matrix = np.diag(ENERGY[kinds]) + bonds * np.outer(FACTOR[kinds], FACTOR[kinds])
    energies, orbitals = np.linalg.eigh(-matrix)  # β is negative
    count = ELECTRONS[kinds].sum() // 2
    full = orbitals[:, :count]
    return Molecule(kinds, places, matrix, 2 * full @ full.T, float(energies[count] - energies[count - 1]))


def _skeleton(rng: np.random.Generator, atoms: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of `atoms` or a few more atoms, and a mask (atoms, atoms) of bonds, each of length 1."""
    places, bonds = np.array([0, 1j]), np.array([[False, True], [True, False]])
    while len(places) < atoms:
        a, b = rng.choice(np.argwhere(bonds))
        count, angle = GROWTH[rng.integers(len(GROWTH))]
        steps = (places[b] - places[a]) * np.exp(1j * np.deg2rad(angle) * np.arange(1, count + 1))
        found = places[b] + np.cumsum(steps)
        apart = np.abs(found[:, None] - places)
        new = apart.min(1) > 0.1  # the others are atoms of rings that are there
        numbers = np.where(new, len(places) - 1 + np.cumsum(new), apart.argmin(1))
        path = np.r_[b, numbers] if count == 1 else np.r_[b, numbers, a]
        grown = np.pad(bonds, (0, new.sum()))
        grown[path[1:], path[:-1]] = grown[path[:-1], path[1:]] = True
        if grown.sum(1).max() <= 3 and (apart[new] > 0.9).all():
            places, bonds = np.append(places, found[new]), grown
    return places, bonds


def _pairs_up(bonds: np.ndarray, free: np.ndarray) -> bool:
    """Whether double bonds can join the free atoms in pairs.

    They can if a skew-symmetric matrix of random numbers at their bonds is regular (Tutte, "The factorization of linear
    graphs", 1947).
    """
    numbers = np.triu(bonds * np.random.default_rng(0).uniform(1, 2, bonds.shape))[free][:, free]
    return len(numbers) % 2 == 0 and bool(abs(np.linalg.det(numbers - numbers.T)) > 1e-6)


def double_bonds(one: Molecule) -> Iterator[tuple[int, int]]:
    """Bonds of high order, such that each atom that has to be in a double bond is in one."""
    free, bonds = ELECTRONS[one.kinds] == 1, (one.matrix != 0) & ~np.eye(len(one.kinds), dtype=bool)
    pairs = np.argwhere(np.triu(bonds))
    for a, b in pairs[np.argsort(-one.density[tuple(pairs.T)], kind="stable")]:
        others = free & (np.arange(len(free)) != a) & (np.arange(len(free)) != b)
        if free[a] and free[b] and _pairs_up(bonds, others):
            free = others
            yield int(a), int(b)
