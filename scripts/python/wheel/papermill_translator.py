"""Lets papermill write parameters as TypeScript: `papermill -p alpha 0.6` adds the cell `let alpha = 0.6;`.

papermill has no entry points for languages. It loads those for engines when it starts, so the engine of this module, which is
papermill's own, registers the language.
"""
import json
import math
import re

from papermill.engines import NBClientEngine
from papermill.models import Parameter
from papermill.translators import Translator, papermill_translators

DECLARATION = re.compile(
    r"^(?:let|const|var)\s+(?P<name>[\w$]+)\s*(?::\s*(?P<type>[^=]+?)\s*)?=\s*(?P<value>.*?);?\s*(?://\s*(?P<help>.*))?$"
)


class TypeScriptTranslator(Translator):
    """Values of JSON and YAML as TypeScript."""

    @classmethod
    def translate_none(cls, val):
        return "null"

    @classmethod
    def translate_str(cls, val):
        return json.dumps(val, ensure_ascii=False)

    @classmethod
    def translate_float(cls, val):
        if math.isfinite(val):
            return repr(val)
        return "NaN" if math.isnan(val) else "Infinity" if val > 0 else "-Infinity"

    @classmethod
    def translate_dict(cls, val):
        return "{ " + ", ".join(f"{json.dumps(str(key))}: {cls.translate(value)}" for key, value in val.items()) + " }"

    @classmethod
    def translate_list(cls, val):
        return "[" + ", ".join(cls.translate(value) for value in val) + "]"

    @classmethod
    def comment(cls, cmt_str):
        return f"// {cmt_str}".strip()

    @classmethod
    def assign(cls, name, str_val):
        return f"let {name} = {str_val};"

    @classmethod
    def inspect(cls, parameters_cell):
        """Returns the parameters of a cell with a declaration per line, for `papermill --help-notebook`."""
        lines = [DECLARATION.match(line.strip()) for line in parameters_cell["source"].splitlines()]
        return [
            Parameter(line["name"], line["type"] or "None", line["value"], line["help"] or "") for line in lines if line
        ]


papermill_translators.register("typescript", TypeScriptTranslator)


class Engine(NBClientEngine):
    """papermill's own engine, by the name shardlab."""
