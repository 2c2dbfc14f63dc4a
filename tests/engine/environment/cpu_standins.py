"""Names of packages that the light environment leaves out, so that SGLang starts on a CPU without them.

Loaded by every Python of ``.engine`` (a ``.pth`` file imports it, child processes included). The engine imports these
packages whatever the device is, and on its plain PyTorch paths calls nothing in them: ``sgl_kernel`` needs libcuda
even to be imported, the others read images and sound. Here any name in them can be imported; calling one raises.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

ABSENT = frozenset({"sgl_kernel", "soundfile", "torchvision"})


class Name:
    """Anything inside an absent package: may be imported, passed on and looked into, but not called."""

    def __init__(self, name: str) -> None:
        """Keep the dotted name for the message."""
        self.__name__ = self.__qualname__ = name

    def __getattr__(self, name: str) -> Name:
        """Give the name inside this one; special methods are absent, so that nobody takes it for a container."""
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(f"{self.__name__}.{name}")

    def __call__(self, *_args: object, **_options: object) -> NoReturn:
        """Refuse.

        Raises:
            NotImplementedError: always; the engine took a path that needs the real package.
        """
        raise NotImplementedError(f"{self.__name__} was called, but its package is only a stand-in here")


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last of all finders: supplies the absent packages, and any module inside them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer to an import, and not to ``importlib.util.find_spec``: who only asks is told the truth."""
        del path, target
        if fullname.partition(".")[0] not in ABSENT:
            return None
        asker = sys._getframe(2)
        if asker.f_code is importlib.util.find_spec.__code__:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Leave it to the import machinery."""
        del spec
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Let any name be found in the module."""
        module.__dict__["__getattr__"] = Name(module.__name__).__getattr__


sys.meta_path.append(Finder())
