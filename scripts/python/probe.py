"""Prints, as JSON, which Python this is, and which requirements of the named files this Python does not meet."""
import json
import re
import sys
from importlib import metadata


def numbers(version):
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def missing(path):
    for line in open(path, encoding="utf8"):
        name, _, least = line.partition("#")[0].strip().partition(">=")
        if not name:
            continue
        try:
            if numbers(metadata.version(name)) < numbers(least):
                yield line.strip()
        except metadata.PackageNotFoundError:
            yield line.strip()


print(json.dumps({
    "executable": sys.executable,
    "version": list(sys.version_info[:3]),
    "missing": [line for path in sys.argv[1:] for line in missing(path)],
}))
