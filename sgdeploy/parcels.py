"""Packages of ours that travel to hosts: their sources, and the form in which one runs there as a file.

The node helper needs no file: it goes through a pipe, in a form of its own (``sgdeploy.remote.channel``).
"""

from __future__ import annotations

import io
import zipfile

from sgdeploy.paths import package_file

_START = "import sys\n\nfrom {name}.main import main\n\nsys.exit(main(sys.argv[1:]))\n"
_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest that a zip file can say: the same source gives the same bytes."""


def sources(folder: str) -> dict[str, bytes]:
    """Read all modules of a package, by name, in order of their names.

    Args:
        folder: where the package is, relative to ours (``weights/worker``).

    Raises:
        FileNotFoundError: the installation is broken.
    """
    files = package_file(f"{folder}/__init__.py").parent.glob("*.py")
    return {file.stem: file.read_bytes() for file in sorted(files)}


def archive(folder: str) -> bytes:
    """Pack a package as one file that any ``python3`` runs (a zipapp); its module ``main`` has ``main(words)``.

    Args:
        folder: where the package is, relative to ours; it goes by its last name.

    Raises:
        FileNotFoundError: the installation is broken.
    """
    name = folder.rpartition("/")[2]
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(*_entry("__main__.py", _START.format(name=name).encode()))
        for module, source in sources(folder).items():
            packed.writestr(*_entry(f"{name}/{module}.py", source))
    return body.getvalue()


def _entry(name: str, data: bytes) -> tuple[zipfile.ZipInfo, bytes, int]:
    return zipfile.ZipInfo(name, _DATE), data, zipfile.ZIP_DEFLATED
