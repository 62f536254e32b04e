"""What the file of a model of the user's own imports: files beside it, which an export copies, and installed packages."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import sys
from dataclasses import dataclass, field
from pathlib import Path

from .errors import ShardlabError

# Packages that every exported folder needs.
_USUAL = ("torch", "numpy", "safetensors")
# Folders into which pip installs packages.
_INSTALLED = ("site-packages", "dist-packages")
_IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError", "Exception")


@dataclass
class Imported:
    """Files by their path beside the model's file, with their texts, and the versions of installed packages."""

    files: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)


def imports_of(file: str, source: str) -> Imported:
    """
    Follows the imports of a file, also those of the files beside it. Raises ShardlabError, with file and line, for an import that is
    found neither beside the file nor among the installed packages, and for names that the exported folder cannot have.
    """
    walk = _Walk(Path(file).resolve().parent)
    walk.require_free_name(Path(file))
    walk.add(Path(file).resolve(), source)
    return walk.found


class _Walk:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.found = Imported()
        self._distributions = importlib.metadata.packages_distributions()

    def require_free_name(self, file: Path) -> None:
        """Raises ShardlabError for a name that train.py could not import."""
        name = file.stem
        if not name.isidentifier():
            why = "its name is no name of a Python module"
        elif name == "train":
            why = "its name is that of the script in the exported folder"
        else:
            places = _places_of(name)
            if name not in sys.stdlib_module_names and (not places or places[0] == file.resolve()):
                return
            why = f"its name is also that of {places[0] if places else 'a module of Python'}"
        raise _refused(f"{file}:1", f"{why}; give the file another name, such as net.py")

    def add(self, path: Path, source: str) -> None:
        """Adds a file of the folder, and what it imports."""
        name = path.relative_to(self._folder).as_posix()
        if name in self.found.files:
            return
        if name == "train.py":
            raise _refused(f"{path}:1", "its name is that of the script in the exported folder; give the file another name")
        self.found.files[name] = source
        tree = ast.parse(source, str(path))
        optional = _optional(tree)
        for node in ast.walk(tree):
            place = f"{path}:{getattr(node, 'lineno', 1)}"
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self._import(alias.name, place, node in optional)
            elif isinstance(node, ast.ImportFrom):
                base = self._absolute(path, node, place)
                if self._import(base, place, node in optional):
                    for alias in node.names:
                        self._add_local(f"{base}.{alias.name}")

    def _absolute(self, path: Path, node: ast.ImportFrom, place: str) -> str:
        """Returns the module from which a statement imports. Raises ShardlabError if a relative import leaves the folder."""
        if node.level == 0:
            return node.module or ""
        parts = path.relative_to(self._folder).parent.parts
        kept = len(parts) - (node.level - 1)
        if kept <= 0:
            raise _refused(place, "a relative import leaves the folder of the model's file; import the module by its name")
        return ".".join([*parts[:kept], *((node.module or "").split(".") if node.module else [])])

    def _import(self, name: str, place: str, is_optional: bool) -> bool:
        """Adds what an import reads. Returns whether it is in the folder."""
        top = name.split(".")[0]
        if top in sys.stdlib_module_names or top in _USUAL:
            return False
        places = _places_of(top)
        if not places:
            if is_optional:
                return False
            raise _refused(
                place, f"it imports {name}, which is neither beside the file nor installed; put {top}.py beside the file, or install {top}"
            )
        is_installed = bool(set(places[0].parts) & set(_INSTALLED))
        if places[0].is_relative_to(self._folder) and not is_installed:
            if self._add_local(name):
                return True
            raise _refused(place, f"it imports {name}, which has no file of Python in {self._folder}; write it as {top}.py beside the file")
        if top not in self._distributions or not is_installed:
            raise _refused(
                place, f"it imports {name} from {places[0]}, which is outside of the model's folder and is no installed package; move it beside "
                "the model's file, or install it by pip",
            )
        distribution = self._distributions[top][0]
        self.found.packages[distribution] = importlib.metadata.version(distribution)
        return False

    def _add_local(self, name: str) -> bool:
        """Adds the file of a module in the folder, and those of the packages around it. Returns whether the module has a file there."""
        parts = name.split(".")
        for end in range(1, len(parts)):
            init = self._folder.joinpath(*parts[:end], "__init__.py")
            if init.is_file():
                self.add(init, init.read_text(encoding="utf-8"))
        at = self._folder.joinpath(*parts)
        for file in (at / "__init__.py", at.with_name(f"{at.name}.py")):
            if file.is_file():
                self.add(file, file.read_text(encoding="utf-8"))
                return True
        return at.is_dir()


def _places_of(name: str) -> list[Path]:
    """Returns the file or the folders of a module or package; an empty list: it is not found."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    found = [spec.origin, *(spec.submodule_search_locations or [])]
    return [Path(each).resolve() for each in found if each is not None and each not in ("built-in", "frozen", "namespace")]


def _optional(tree: ast.AST) -> set[ast.AST]:
    """Returns the imports whose failure the file handles."""
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Try):
            continue
        names = {each.id for handler in node.handlers for each in ast.walk(handler.type or ast.Name("Exception")) if isinstance(each, ast.Name)}
        if names & set(_IMPORT_ERRORS):
            found.update(each for part in node.body for each in ast.walk(part))
    return found


def _refused(place: str, says: str) -> ShardlabError:
    return ShardlabError("CONFIG", f"run.export: {place}: {says}")
