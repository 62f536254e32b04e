"""Lists the arguments of packages on PyPI, with their defaults, without importing them: python list_source_keys.py FOLDER OUT.json [MEGATRON].

pip downloads the packages into FOLDER, without what they depend on. Python's ast finds the annotated fields of the classes of arguments and of their
bases, as far as the package has them. The defaults are those that are literals. PyPI's megatron-core has no pretrain_gpt.py; its arguments are listed
from MEGATRON, a clone of NVIDIA/Megatron-LM. Without MEGATRON, OUT.json keeps those that it has."""

import ast
import json
import pathlib
import subprocess
import sys
import zipfile
from typing import Any, Iterator

# The dialect, the package, its version, a folder in it, and the classes of its arguments.
SOURCES = [
    ("swift", "ms-swift", "4.5.2", "swift", ["SftArguments"]),
    ("megatron sft", "ms-swift", "4.5.2", "swift", ["MegatronSftArguments"]),
    (
        "LLaMA-Factory",
        "llamafactory",
        "0.9.5",
        "llamafactory/hparams",
        ["ModelArguments", "DataArguments", "TrainingArguments", "FinetuningArguments", "GeneratingArguments"],
    ),
    ("TRL", "trl", "1.16.0", "trl", ["SFTConfig", "ModelConfig", "ScriptArguments", "DatasetMixtureConfig"]),
    ("TorchTitan", "torchtitan", "0.2.2", "torchtitan/config", ["JobConfig"]),
]

# The dialect, the package, its version, and the file that adds the arguments to parsers.
PARSERS = [("DiffSynth-Studio", "diffsynth", "2.1.12", "diffsynth/diffusion/parsers.py")]


def download(package: str, version: str, folder: pathlib.Path) -> pathlib.Path:
    """Returns the folder of a package's files."""
    target = folder / f"{package}-{version}"
    if not target.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--dest", str(folder), f"{package}=={version}"], check=True)
        wheel = next(folder.glob(f"{package.replace('-', '_')}-{version}-*.whl"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    return target


class Package:
    """The classes of a package's files; of two with the same name, a file beside the asking one comes first."""

    def __init__(self, folder: pathlib.Path):
        self.classes: dict[str, list[tuple[pathlib.Path, ast.ClassDef]]] = {}
        for path in sorted(folder.rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    self.classes.setdefault(node.name, []).append((path, node))

    def find(self, name: str, beside: pathlib.Path | None = None) -> tuple[pathlib.Path, ast.ClassDef] | None:
        found = self.classes.get(name, [])
        return next((one for one in found if one[0] == beside), found[0] if found else None)

    def fields(self, name: str, beside: pathlib.Path | None = None) -> dict[str, Any]:
        """Fields of a class and its bases, by name; those of TorchTitan's sections have the section's name before theirs."""
        found = self.find(name, beside)
        if found is None:
            return {}
        path, node = found
        keys: dict[str, Any] = {}
        for base in reversed(node.bases):
            base_name = base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
            if base_name != name:
                keys.update(self.fields(base_name, path))
        for key, annotation, value in annotated(node):
            section = self.fields(annotation, path)
            if section:
                keys.update({f"{key}.{inner}": default for inner, default in section.items()})
            else:
                keys[key] = default_of(value)
        return keys


def annotated(node: ast.ClassDef) -> Iterator[tuple[str, str, ast.expr | None]]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            if not name.startswith("_") and "ClassVar" not in ast.dump(statement.annotation):
                yield name, getattr(statement.annotation, "id", ""), statement.value


def default_of(value: ast.expr | None) -> Any:
    """A default that is a literal; else None."""
    if isinstance(value, ast.Call):
        value = next((one.value for one in value.keywords if one.arg == "default"), None)
    try:
        literal = ast.literal_eval(value) if value is not None else None
        return json.loads(json.dumps(literal))
    except (ValueError, TypeError):
        return None


def written(name: str) -> str:
    return name.removeprefix("--").replace("-", "_")


def field_arguments(package: Package, name: str, exclude: list[str]) -> dict[str, Any]:
    """Arguments that Megatron-LM's ArgumentGroupFactory makes of the fields of a class."""
    keys: dict[str, Any] = {}
    path, node = package.find(name)
    for base in reversed(node.bases):
        if package.find(getattr(base, "id", "")) is not None:
            keys.update(field_arguments(package, base.id, exclude))
    for field, annotation, value in annotated(node):
        options = {one.arg: one.value for one in value.keywords} if isinstance(value, ast.Call) else {}
        if field in exclude or isinstance(options.get("init"), ast.Constant):
            continue
        names = [one for one in ast.walk(value) if isinstance(one, ast.Dict)] if value is not None else []
        named = [
            [written(one.value) for one in entry.elts]
            for group in names
            for key, entry in zip(group.keys, group.values)
            if isinstance(key, ast.Constant) and key.value == "arg_names" and isinstance(entry, ast.List)
        ]
        default = default_of(value)
        is_on = annotation == "bool" and default is True
        for argument in named[0] if named else [f"no_{field}", f"disable_{field}"] if is_on else [field]:
            keys[argument.replace("-", "_").lower() if argument.isupper() else argument] = None if is_on else default
    return keys


def megatron_keys(clone: pathlib.Path) -> dict[str, Any]:
    """Arguments of Megatron-LM's pretrain_gpt.py."""
    tree = ast.parse((clone / "megatron/training/arguments.py").read_text(encoding="utf-8"))
    package = Package(clone / "megatron")
    keys: dict[str, Any] = {}
    excluded = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "exclude"
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        options = {one.arg: one.value for one in node.keywords}
        if getattr(node.func, "attr", "") == "add_argument":
            names = [one.value for one in node.args if isinstance(one, ast.Constant) and str(one.value).startswith("--")]
            default = options.get("default")
            keys.update({written(name): default_of(default) for name in names})
        if getattr(node.func, "id", "") == "ArgumentGroupFactory":
            exclude = options.get("exclude")
            left_out = excluded["exclude"] if isinstance(exclude, ast.Name) else ast.literal_eval(exclude or ast.List([]))
            keys.update(field_arguments(package, node.args[0].id, left_out))
    return dict(sorted(keys.items()))


def parser_keys(path: pathlib.Path) -> dict[str, Any]:
    """Arguments that a file adds to a parser; a switch is False unless it is given."""
    keys: dict[str, Any] = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            options = {one.arg: one.value for one in node.keywords}
            keys.update({written(one.value): default_of(options.get("default")) for one in node.args if isinstance(one, ast.Constant)})
    return dict(sorted(keys.items()))


def main() -> None:
    folder, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    versions: dict[str, str] = {}
    keys: dict[str, dict[str, Any]] = {}
    for dialect, package, version, inner, classes in SOURCES:
        found = Package(download(package, version, folder) / inner)
        versions[package] = version
        keys[dialect] = {}
        for name in classes:
            keys[dialect].update(found.fields(name))
        keys[dialect] = dict(sorted(keys[dialect].items()))
    for dialect, package, version, inner in PARSERS:
        versions[package] = version
        keys[dialect] = parser_keys(download(package, version, folder) / inner)
    if len(sys.argv) > 3:
        clone = pathlib.Path(sys.argv[3])
        commit = subprocess.run(["git", "-C", str(clone), "rev-parse", "--short=12", "HEAD"], capture_output=True, check=True)
        versions["Megatron-LM"] = commit.stdout.decode().strip()
        keys["Megatron-LM"] = megatron_keys(clone)
    elif out.exists():
        before = json.loads(out.read_text(encoding="utf-8"))
        versions["Megatron-LM"] = before["versions"]["Megatron-LM"]
        keys["Megatron-LM"] = before["keys"]["Megatron-LM"]
    out.write_text(json.dumps({"versions": versions, "keys": keys}, indent=1) + "\n", encoding="utf-8")


main()
