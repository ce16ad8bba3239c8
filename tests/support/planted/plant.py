"""Plants a fault: the function that it names is replaced as soon as the module that defines it is imported.

A fault names a function, not a module, so it survives when code moves.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

PROJECT = Path(__file__).parents[3]
SOURCES = {"onefold": PROJECT / "src" / "onefold", "spark_jobs": PROJECT / "spark_jobs"}


ACTIVE: list[Callable[..., Any]] = []
"""What replaces the function of the fault that is `planted`."""


class NotInPlaceError(TypeError):
    """The function of a fault is decorated, or no plain function: it can only be replaced before it is imported."""


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
                    defined |= {
                        f"{node.name}.{member.name}" for member in node.body if isinstance(member, ast.FunctionDef)
                    }
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


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Replace the function of a fault for a while, in this process and wherever it was imported to: its code is
    exchanged. The workers that Spark has started already keep the old one.

    Raises:
        NotInPlaceError: that cannot be done.
    """
    from tests.support.planted.faults import FAULTS

    fault = FAULTS[name]
    owner, attribute = _place(import_module(module_of(fault.function)), fault.function)
    function = vars(owner)[attribute]
    if not inspect.isfunction(function) or function.__closure__ or hasattr(function, "__wrapped__"):
        raise NotInPlaceError(fault.function)
    kept = (function.__code__, function.__defaults__, function.__kwdefaults__)
    original = FunctionType(kept[0], function.__globals__, function.__name__, kept[1])
    original.__kwdefaults__, original.__annotations__ = kept[2], function.__annotations__
    ACTIVE.append(fault.replace(original))
    function.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    function.__code__, function.__defaults__, function.__kwdefaults__ = _call_active.__code__, None, None
    try:
        yield
    finally:
        function.__code__, function.__defaults__, function.__kwdefaults__ = kept
        del function.__signature__  # type: ignore[attr-defined]
        ACTIVE.pop()


def _call_active(*args: Any, **kwargs: Any) -> Any:
    from tests.support.planted.plant import ACTIVE  # the code runs with the globals of the function that it replaces

    return ACTIVE[-1](*args, **kwargs)


def _replace(module: ModuleType, function: str, replace: Any) -> None:
    owner, name = _place(module, function)
    setattr(owner, name, replace(getattr(owner, name)))


def _place(module: ModuleType, function: str) -> tuple[Any, str]:
    """The module or class that has a function, and the function's name there."""
    *owners, name = function.split(".")
    owner = getattr(module, owners[0], None) if owners else None
    return (owner if isinstance(owner, type) else module), name


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
