"""`python -m jsparse info` prints the facts for a bug report; `python -m jsparse cache` shows the cached kernels.

`info --json` prints JSON. `cache --clear` removes all kernels from the folder of the cache.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from jsparse.compiler import cache
from jsparse.errors import CacheError
from jsparse.ops.installation import as_text, installation


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line. Returns the exit status: 1 if the folder of the cache cannot be read or emptied, else 0."""
    parser = argparse.ArgumentParser(prog="python -m jsparse", description="Describe jsparse, and manage its kernels.")
    commands = parser.add_subparsers(metavar="command")
    about = commands.add_parser("info", help="print versions, machine and settings, for bug reports")
    about.add_argument("--json", action="store_true", help="print JSON")
    about.set_defaults(run=_info)
    folder = commands.add_parser("cache", help="show the folder of compiled kernels, or empty it")
    folder.add_argument("--clear", action="store_true", help="remove all kernels from the folder")
    folder.set_defaults(run=_cache)
    options = parser.parse_args(arguments)
    if "run" not in options:
        parser.print_help()
        return 0
    return options.run(options)


def _info(options: argparse.Namespace) -> int:
    facts = installation()
    print(json.dumps(facts, indent=2) if options.json else as_text(facts))
    return 0


def _cache(options: argparse.Namespace) -> int:
    if cache.location.cache_dir is None:
        print("There is no folder of compiled kernels, because JSPARSE_CACHE_DIR is empty.")
        return 0
    try:
        if options.clear:
            print(f"Removed {cache.clear()} kernels from {cache.location.cache_dir}.")
        else:
            report = cache.report()
            print(f"folder   {cache.location.cache_dir}")
            print(f"kernels  {report.entries}, {report.usable} of them for the versions and the CPU below")
            print(f"bytes    {report.nbytes:,} of at most {cache.location.cache_bytes:,}\n")
            for line in report.environment.splitlines():
                print(line if len(line) < 120 else f"{line[:116]}...")
    except CacheError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
