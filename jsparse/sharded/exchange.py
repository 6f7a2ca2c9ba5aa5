"""The rows of a dense operand that a device needs from other devices, and the exchange that brings them.

Device d has the same part of the rows of X as of the columns of A. It needs the rows at which its entries have their
columns: its *halo*. Rows travel by a ring shift for each distance o: device d sends to device d + o what that one
needs, padded to the largest number that any device sends over this distance. If all rows that are needed are more than
X itself, each device gathers X.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jsparse.base.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Exchange:
    """How devices exchange rows.

    Attributes:
        devices: the number of devices.
        own: the number of rows that each device has.
        shifts: the distances, and for each one the number of rows that each device sends over it.
        gathers: whether each device gathers all rows instead.
    """

    devices: int
    own: int
    shifts: tuple[tuple[int, int], ...]
    gathers: bool = False

    @property
    def halo(self) -> int:
        """The number of rows that each device receives."""
        return (self.devices - 1) * self.own if self.gathers else sum(count for _, count in self.shifts)

    @property
    def columns(self) -> int:
        """The number of columns of a device's block: of its own rows and of the halo."""
        return self.own + self.halo

    def bytes_received(self, row_bytes: int) -> int:
        """The bytes that each device receives for rows of `row_bytes` bytes."""
        return self.halo * row_bytes

    def __str__(self) -> str:
        if self.gathers:
            return f"all-gather of {self.own:,} rows from each of {self.devices} devices"
        shifts = ", ".join(f"{count:,} by distance {distance}" for distance, count in self.shifts)
        return f"collective permutes of rows: {shifts}" if shifts else "no rows"

    def extend(self, x: jax.Array, tables: Sequence[jax.Array], axis: str) -> jax.Array:
        """Return a device's rows of X, followed by its halo. `tables` lists the rows to send over each distance."""
        if self.gathers:
            # All rows, in the order of devices, as the columns are numbered then.
            return jax.lax.all_gather(x, axis, tiled=True)
        parts = [x]
        for (distance, _), table in zip(self.shifts, tables, strict=True):
            pairs = [(d, (d + distance) % self.devices) for d in range(self.devices)]
            parts.append(jax.lax.ppermute(x[table], axis, pairs))
        return jnp.concatenate(parts) if len(parts) > 1 else x


@dataclass(frozen=True)
class Halos:
    """The rows that the devices of an exchange send, and the places where they find the rows that they receive.

    Attributes:
        tables: for each distance, the rows that each device sends: (devices, rows).
        columns: the column of A at each column of a device's block: (devices, columns).
    """

    exchange: Exchange
    tables: tuple[np.ndarray, ...]
    columns: np.ndarray

    def local_columns(self, device: int, columns: np.ndarray) -> np.ndarray:
        """The columns of a device's block for columns of A."""
        of_device = self.columns[device]
        order = np.argsort(of_device, kind="stable")
        return order[np.searchsorted(of_device, columns, sorter=order)]


def find_halos(columns: Sequence[np.ndarray], size: int) -> Halos:
    """Find the exchange that moves the fewest rows, for the columns of each device's entries among `size` columns."""
    devices, each = len(columns), size // len(columns)
    needed = [[np.empty(0, np.int64)] * devices for _ in range(devices)]
    for device, of in enumerate(columns):
        distinct = np.unique(of)
        for owner, rows in enumerate(np.split(distinct, np.searchsorted(distinct, each * np.arange(1, devices)))):
            needed[device][owner] = rows
    counts = {
        distance: max(len(needed[(d + distance) % devices][d]) for d in range(devices))
        for distance in range(1, devices)
    }
    shifts = tuple((distance, count) for distance, count in counts.items() if count)
    exchange = Exchange(devices, each, shifts)
    every = np.tile(np.arange(size), (devices, 1))
    if exchange.halo > size - each:
        return Halos(Exchange(devices, each, (), gathers=True), (), every)
    tables = tuple(np.zeros((devices, count), np.int32) for _, count in shifts)
    numbered = [[np.arange(each) + d * each] for d in range(devices)]
    for table, (distance, count) in zip(tables, shifts, strict=True):
        for sender in range(devices):
            receiver = (sender + distance) % devices
            rows = needed[receiver][sender]
            table[sender, : len(rows)] = rows - sender * each
            # Rows that are sent but not needed are never read: no column of A has their numbers.
            numbered[receiver].append(np.concatenate([rows, size + np.arange(count - len(rows))]))
    return Halos(exchange, tables, np.stack([np.concatenate(of_device) for of_device in numbered]))
