"""The newest symbols of glibc and libstdc++ that the extension in a Linux wheel needs: `python symbols.py WHEEL`.

They decide on which systems the wheel runs, and so which tag auditwheel gives it. It needs pyelftools, which auditwheel
requires.
"""

import sys
import zipfile
from pathlib import Path

from elftools.elf.elffile import ELFFile


def versioned_symbols(extension):
    """Yield the library, version and name of each symbol that an ELF file takes from a versioned library."""
    elf = ELFFile(extension)
    needed = {
        version["vna_other"]: (library.name, version.name)
        for library, versions in elf.get_section_by_name(".gnu.version_r").iter_versions()
        for version in versions
    }
    numbers = elf.get_section_by_name(".gnu.version")
    for index, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
        number = numbers.get_symbol(index)["ndx"]
        if number in needed:
            yield *needed[number], symbol.name


def newest(symbols):
    """The newest version of each series, such as GLIBC or GLIBCXX, with its library and the symbols that have it."""
    found = {}
    for library, version, name in symbols:
        series, _, number = version.rpartition("_")
        release = tuple(map(int, number.split(".")))
        best, _, _, names = found.get(series, ((), "", "", []))
        if release >= best:
            found[series] = release, library, version, [name] if release > best else [*names, name]
    return found


def main():
    path = Path(sys.argv[1])
    print(path.name)
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            if name.endswith(".so"):
                with wheel.open(name) as extension:
                    rows = newest(versioned_symbols(extension))
                for _, library, version, names in rows.values():
                    print(f"  {version:<16} of {library:<18} {', '.join(sorted(names))}")


if __name__ == "__main__":
    main()
