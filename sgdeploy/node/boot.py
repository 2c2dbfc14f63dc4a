"""How this package comes to life where nothing is installed: the first module that runs, and imports the others.

The controller sends the package as a *parcel*: a line ``TAG SIZE SIZE``, then every module twice, as bytecode and as
source, each a compressed dictionary by name. ``BOOTSTRAP`` stands on the command line; it unpacks the one that this
Python understands, runs the module ``boot`` of it, and calls ``boot`` there with what was unpacked and with the bytes
as they came: keepers are started with the same.
"""

from __future__ import annotations

import sys

# What importlib is made of, and Python has in memory from its start: importlib.abc takes longer to import than we do.
from _frozen_importlib import spec_from_loader
from _frozen_importlib_external import _LoaderBasics

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import CodeType, ModuleType

PACKAGE = "sgdeploy-node"
"""What the package is called on a host. No ``import`` statement can say it, so nothing else can be meant by it."""

BOOTSTRAP = (
    "import io,marshal,sys;"
    'sys.version_info<(3,7) and sys.exit("sgdeploy needs Python 3.7 or newer, this is "+sys.version.split()[0]);'
    "import zlib,_frozen_importlib_external as e;"
    "f=io.BufferedReader(io.FileIO(0,closefd=False),1);"
    "h=f.readline();t,c,s=h.split();c=f.read(int(c));s=f.read(int(s));"
    "u=str(sys.implementation.cache_tag)+e.MAGIC_NUMBER.hex();"
    "m=marshal.loads(zlib.decompress(c if t.decode()==u else s));"
    'n={"__name__":"sgdeploy-node.boot"};'
    'exec(m["boot"],n);'
    'n["boot"](m,h+c+s)'
)
"""Reads a parcel from stdin, not a byte more, and runs it.

It is one line without single quotes, ``!``, ``$`` or backslashes, so that single quotes carry it through bash, dash,
csh and fish alike.
"""

PYTHON_FLAGS = ("-I", "-S", "-u")
KEEPER = "sgdeploy-keeper"
"""First word on the command line of a keeper; the second is its run folder."""


class Importer(_LoaderBasics):
    """Finds the modules of a parcel for ``import``; each runs when it is first asked for, compiled if need be."""

    def __init__(self, modules: Mapping[str, CodeType | bytes]) -> None:
        """Take the modules by name."""
        self._modules = {PACKAGE if name == "__init__" else f"{PACKAGE}.{name}": modules[name] for name in modules}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Say that a module is here; None for those of others."""
        del path, target
        if fullname not in self._modules:
            return None
        return spec_from_loader(fullname, self, is_package=fullname == PACKAGE)

    def get_code(self, fullname: str) -> CodeType:
        """Give what is run as a module."""
        body = self._modules[fullname]
        return compile(body, fullname + ".py", "exec", dont_inherit=True) if isinstance(body, bytes) else body


def boot(modules: Mapping[str, CodeType | bytes], parcel: bytes) -> None:
    """Make the package importable, and run it."""
    sys.meta_path.insert(0, Importer(modules))
    __import__(PACKAGE + ".main", fromlist=["main"]).main(parcel)
