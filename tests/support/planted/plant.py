"""Plants a fault: the function that it names is replaced as soon as the module that defines it is imported.

A fault names a function, not a module, so it survives when code moves.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

PROJECT = Path(__file__).parents[3]
SOURCES = {"onefold": PROJECT / "src" / "onefold", "spark_jobs": PROJECT / "spark_jobs"}


class NoSuchFunctionError(LookupError):
    """No module, or more than one, defines the function that a fault names."""


def module_of(function: str) -> str:
    """The module that defines a function (`judge`) or a method (`StateTable.publish`).

    Raises:
        NoSuchFunctionError: none does, or several do: name it as `module.function` then, with the module's last name.
    """
    *owners, name = function.split(".")
    found = [module for module, defined in _definitions() if function in defined]
    if not found and len(owners) == 1:  # `judge.judge`: the module's last name, where a name alone is not unique
        found = [module for module, defined in _definitions() if module.endswith(f".{owners[0]}") and name in defined]
    if len(found) != 1:
        raise NoSuchFunctionError(f"{function}: defined in {found or 'no module'}")
    return found[0]


@cache
def _definitions() -> list[tuple[str, set[str]]]:
    """Each module, and the names of its functions and of its classes' methods."""
    found = []
    for package, folder in SOURCES.items():
        for file in sorted(folder.rglob("*.py")):
            parts = [package, *file.relative_to(folder).with_suffix("").parts]
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            defined: set[str] = set()
            for node in ast.parse(file.read_text()).body:
                if isinstance(node, ast.FunctionDef):
                    defined.add(node.name)
                elif isinstance(node, ast.ClassDef):
                    defined |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
            found.append((module, defined))
    return found


def plant(name: str) -> None:
    """Replace the function of a fault when its module is imported by this process."""
    from tests.support.planted.faults import FAULTS

    fault = FAULTS[name]
    module = module_of(fault.function)
    if module in sys.modules:
        _replace(sys.modules[module], fault.function, fault.replace)
    else:
        sys.meta_path.insert(0, _Finder(module, fault.function, fault.replace))


def _replace(module: ModuleType, function: str, replace: Any) -> None:
    *owners, name = function.split(".")
    owner: Any = module
    if owners and hasattr(module, owners[0]) and isinstance(getattr(module, owners[0]), type):
        owner = getattr(module, owners[0])
    original = getattr(owner, name)
    setattr(owner, name, replace(original))


class _Finder(MetaPathFinder):
    def __init__(self, module: str, function: str, replace: Any) -> None:
        self.module, self.function, self.replace = module, function, replace

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Loader(spec.loader, self.function, self.replace)
        return spec


class _Loader(Loader):
    def __init__(self, loader: Loader, function: str, replace: Any) -> None:
        self.loader, self.function, self.replace = loader, function, replace

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        _replace(module, self.function, self.replace)

    def __getattr__(self, name: str) -> Any:  # what `inspect`, `runpy` and `importlib.resources` ask of a loader
        return getattr(self.loader, name)
