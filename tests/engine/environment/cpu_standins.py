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
from collections.abc import Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import NoReturn

ABSENT = frozenset({"sgl_kernel", "soundfile", "torchvision"})

SWITCHED_OFF: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"sglang.srt.disaggregation.mooncake.conn": ("MooncakeKVSender", "supports_host_tensor_indices")}
)
"""Module -> class and attribute that are made False once it is imported: that sender puts the indices of a prompt's
pages into pinned memory, which only CUDA has, unless it is said that it takes none from the host."""


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


class Switch(importlib.abc.MetaPathFinder):
    """The first of all finders: lets the others find a module, and switches something off in it once it has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Give the module's own spec, with a loader that goes one step further."""
        if fullname not in SWITCHED_OFF:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = Switched(spec.loader)
        return spec


class Switched(importlib.abc.Loader):
    """Loads a module by its own loader, then switches off."""

    def __init__(self, own: importlib.abc.Loader) -> None:
        """Keep the loader that knows the module."""
        self.own = own

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Leave it to the module's own loader."""
        return self.own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then set the attribute."""
        self.own.exec_module(module)
        name, attribute = SWITCHED_OFF[module.__name__]
        setattr(getattr(module, name), attribute, False)


sys.meta_path.insert(0, Switch())
sys.meta_path.append(Finder())
