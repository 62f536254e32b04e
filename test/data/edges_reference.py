"""Writes edges_reference.json: results and gradients of torch's operations at the edges of their range.

A row of the file is one call: the name of an operation (test/engine/backend/edges/calls.ts has the same operation of this engine), inputs,
arguments, results, and the gradient of each float32 input. The gradient of element i of the first result is ((37 i) mod 11 - 5) / 4.
A row without results is refused by torch. A row of nn.Name is a layer: its inputs are those of the call, then the parameters.

    python test/data/edges_reference.py
"""

import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "src", "python"))

from edges import elementwise, layers, models, modules, reductions, structure  # noqa: E402, F401 (each adds its rows)
from edges.rows import ROWS  # noqa: E402

lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in ROWS)
with open(os.path.join(HERE, "edges_reference.json"), "w") as file:
    file.write(f"[\n{lines}\n]\n")
print(len(ROWS), "rows")
