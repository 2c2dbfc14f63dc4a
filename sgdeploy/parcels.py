"""Packages of ours that travel to hosts: their sources, and the two forms in which one is a file there.

An *archive* is a zipapp: any package, run once. A *joined* file is a plain script, for what starts hundreds of times on
a host and is looked at by people: Python starts it some milliseconds sooner than a zipapp. The node helper needs no
file: it goes through a pipe (``sgdeploy.remote.channel``).
"""

from __future__ import annotations

import io
import zipfile
from functools import cache

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


@cache
def shipped(name: str) -> str:
    """Give the text of a file that goes to hosts, by its name in our package.

    ``rehearse/engine.py`` is the package ``rehearse/engine``, joined; what is no package goes as it is.

    Raises:
        FileNotFoundError: it does not ship with sgdeploy.
    """
    try:
        modules = sources(name.removesuffix(".py"))
    except FileNotFoundError:
        return package_file(name).read_text(encoding="utf-8")
    from sgdeploy.joining import join

    return join({module: source.decode() for module, source in modules.items()})
