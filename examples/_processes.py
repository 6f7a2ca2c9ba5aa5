"""Run an example on four virtual devices, in one process or in several processes that it starts itself."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from argparse import ArgumentParser, Namespace

__all__ = ["DEVICES", "parse_and_start"]

DEVICES = 4


def parse_and_start(description: str | None) -> Namespace:
    """Parse the command line. Start JAX in this process, or start this program in several processes and exit.

    It sets XLA's flags, so it has to run before JAX is imported.
    """
    parser = ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=20, help="the number of steps (default: 20)")
    parser.add_argument("--processes", type=int, default=1, choices=(1, 2, 4), help="start this many processes")
    parser.add_argument("--index", type=int, help="the number of this process; the first one sets it")
    parser.add_argument("--coordinator", help="the address at which processes meet; the first one sets it")
    args = parser.parse_args()
    if args.processes > 1 and args.index is None:
        sys.exit(_run_processes(args.processes))
    count = DEVICES // args.processes
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={count}"
    if args.processes > 1:
        import jax

        jax.distributed.initialize(args.coordinator, args.processes, args.index)
    return args


def _run_processes(count: int) -> int:
    """Run this program in several processes. Return 0 if all of them return 0; if one fails, end the others, too."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    command = [sys.executable, *sys.argv, "--coordinator", address]
    started = [subprocess.Popen([*command, "--index", str(n)]) for n in range(count)]
    return max(abs(process.wait()) for process in started)
