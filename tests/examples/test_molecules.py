"""Molecules, Hückel's theory, and the network that learns it."""

import itertools
import re

import numpy as np
import pytest


@pytest.fixture
def drawn():
    from _hueckel import molecules

    return list(itertools.islice(molecules(1), 40))


def test_atoms_are_apart_and_bonds_have_length_one(drawn):
    for one in drawn:
        apart = np.abs(one.places[:, None] - one.places)
        bonds = (one.matrix != 0) & ~np.eye(len(apart), dtype=bool)
        np.testing.assert_allclose(apart[bonds], 1, rtol=1e-9)
        assert apart[~np.eye(len(apart), dtype=bool)].min() > 0.9
        assert 1 <= bonds.sum(1).min() <= bonds.sum(1).max() <= 3


def test_each_atom_with_one_electron_has_one_double_bond(drawn):
    from _hueckel import ELECTRONS, double_bonds

    for one in drawn:
        ends = np.array(list(double_bonds(one)), int).reshape(-1)
        np.testing.assert_array_equal(np.sort(ends), np.flatnonzero(ELECTRONS[one.kinds] == 1))


def test_the_density_is_that_of_the_full_orbitals(drawn):
    for one in drawn:
        occupied = one.density / 2
        np.testing.assert_allclose(occupied @ occupied, occupied, atol=1e-9)
        np.testing.assert_allclose(one.matrix @ occupied, occupied @ one.matrix, atol=1e-9)
        np.testing.assert_allclose(one.charges.sum(), 0, atol=1e-9)
        full = round(np.trace(occupied))
        energies = np.sort(-np.linalg.eigvals(one.matrix).real)
        np.testing.assert_allclose(one.gap, energies[full] - energies[full - 1], atol=1e-9)


def test_known_molecules():
    from _hueckel import _hueckel

    def polyene(n, closed):
        bonds = np.eye(n, k=1, dtype=bool)
        bonds[0, -1] |= closed
        return _hueckel(np.zeros(n, int), np.zeros(n, complex), bonds | bonds.T)

    benzene, butadiene = polyene(6, True), polyene(4, False)
    assert benzene.gap == pytest.approx(2)
    assert benzene.density[0, 1] == pytest.approx(2 / 3)
    assert butadiene.gap == pytest.approx(np.sqrt(5) - 1)
    np.testing.assert_allclose([benzene.density[0, 0], butadiene.density[0, 0]], 1)
    assert butadiene.density[0, 1] == pytest.approx(2 / np.sqrt(5))


def test_moments_are_those_of_eigenvectors(drawn):
    one = drawn[0]
    values, vectors = np.linalg.eigh(one.matrix / 3.2)
    expected = [(vectors**2) @ np.cos(k * np.arccos(values)) for k in range(1, 8)]
    np.testing.assert_allclose(one.moments(7).T, expected, atol=1e-9)


def test_the_whole_program(capsys, tmp_path):
    import molecules

    options = ["--molecules", "160", "--epochs", "30", "--output", str(tmp_path / "molecules.png")]
    molecules.main(options)
    found = re.findall(r"mean error (\S+); predicting the mean (\d\.\d+)", capsys.readouterr().out)
    ratios = [float(error) / float(of_mean) for error, of_mean in found]
    assert len(ratios) == 2
    assert max(ratios) < 0.9
    assert (tmp_path / "molecules.png").stat().st_size > 1000
