"""The worker packed for a journey: one file that any python3 from 3.7 on runs."""

from __future__ import annotations

import io
import zipfile

from sgdeploy.paths import package_file

NAME = "split.pyz"
_MODULES = (
    "__init__",
    "copy",
    "headers",
    "job",
    "journal",
    "lock",
    "main",
    "replicas",
    "run",
    "shards",
    "sign",
    "target",
    "writer",
)
_START = "import sys\n\nfrom worker.main import main\n\nsys.exit(main(sys.argv[1:]))\n"
_DATE = (1980, 1, 1, 0, 0, 0)


def parcel() -> bytes:
    """Pack it; the same source gives the same bytes."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _START)
        for name in _MODULES:
            text = package_file(f"weights/worker/{name}.py").read_text(encoding="utf-8")
            _add(archive, f"worker/{name}.py", text)
    return body.getvalue()


def _add(archive: zipfile.ZipFile, name: str, text: str) -> None:
    archive.writestr(zipfile.ZipInfo(name, _DATE), text, zipfile.ZIP_DEFLATED)
