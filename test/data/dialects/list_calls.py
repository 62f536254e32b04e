"""Lists calls of known functions in files of Python, as Python's own parser sees them: {file: [[line, name, [keyword, ...]], ...]}.

The first argument is a list of names in JSON; the others are files.
"""

import ast
import json
import sys

MODULES = ("torch", "accelerate", "transformers", "trl", "peft")


def imports_of(tree: ast.AST) -> dict:
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            for one in node.names:
                names[one.asname or one.name] = f"{node.module}.{one.name}"
        elif isinstance(node, ast.Import):
            for one in node.names:
                root = one.name.split(".")[0]
                names[one.asname or root] = one.name if one.asname else root
    return names


def calls_of(text: str, known: set) -> list:
    tree = ast.parse(text)
    imports = imports_of(tree)
    calls = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        parts, function = [], node.func
        while isinstance(function, ast.Attribute):
            parts.append(function.attr)
            function = function.value
        if not isinstance(function, ast.Name) or function.id not in imports:
            continue
        full = [*imports[function.id].split("."), *reversed(parts)]
        if full[0] in MODULES and full[-1] in known:
            calls.append([node.lineno, full[-1], sorted(one.arg for one in node.keywords if one.arg)])
    return sorted(calls)


if __name__ == "__main__":
    names = set(json.loads(sys.argv[1]))
    result = {}
    for path in sys.argv[2:]:
        with open(path, encoding="utf8") as file:
            result[path] = calls_of(file.read(), names)
    print(json.dumps(result))
