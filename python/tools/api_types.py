"""Writes src/gpool/types.py from docs/openapi.json; with --check, tells whether it is current.

Only the types that the client's methods take and return are written, with all that they contain.
"""

import json
import keyword
import sys
import textwrap
from pathlib import Path

PYTHON = Path(__file__).resolve().parent.parent
DOCUMENT = PYTHON.parent / "docs" / "openapi.json"
OUTPUT = PYTHON / "src" / "gpool" / "types.py"

#: Schemas that the client's methods take and return.
ROOTS = [
    "BulkAnswer",
    "Event",
    "Gpu",
    "Job",
    "JobChanged",
    "JobCreate",
    "JobMetrics",
    "Node",
    "Problem",
    "QuotaOverview",
    "Status",
    "Version",
    "Why",
]

HEAD = '''"""Types of the API: dictionaries as the server sends and takes them.

tools/api_types.py writes this file from docs/openapi.json, which describes each field. A newer
server may send more fields.
"""

from __future__ import annotations

from typing import Any, Literal, Optional, TypedDict, Union
'''


def references(schema, found):
    """Collects the names of the schemas that a schema contains."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            found.add(schema["$ref"].rsplit("/", 1)[-1])
        for value in schema.values():
            references(value, found)
    elif isinstance(schema, list):
        for value in schema:
            references(value, found)


def needed(schemas):
    """The names of all schemas to write, sorted."""
    found, left = set(), list(ROOTS)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            inside = set()
            references(schemas[name], inside)
            left.extend(inside)
    return sorted(found)


def annotation(schema):
    """The Python type of a schema."""
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[-1]
    if "enum" in schema:
        if "timed_out" in schema["enum"]:
            return "JobState"
        if "resync" in schema["enum"]:
            return "EventType"
        return f"Literal[{', '.join(json.dumps(value) for value in schema['enum'])}]"
    if "oneOf" in schema:
        parts = [annotation(part) for part in schema["oneOf"]]
        rest = [part for part in parts if part != "None"]
        inner = rest[0] if len(rest) == 1 else f"Union[{', '.join(rest)}]"
        return inner if len(rest) == len(parts) else f"Optional[{inner}]"
    kind = schema.get("type")
    if isinstance(kind, list):
        rest = [part for part in kind if part != "null"]
        return f"Optional[{annotation({**schema, 'type': rest[0]})}]"
    if kind == "array":
        return f"list[{annotation(schema['items'])}]"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"dict[str, {annotation(schema['additionalProperties'])}]"
    simple = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
    return {**simple, "null": "None", "object": "dict[str, Any]"}.get(kind, "Any")


def merged(schema, schemas):
    """The properties of an object, and the required ones. Variants are merged: a property that
    only some of them have is optional."""
    if "$ref" in schema:
        return merged(schemas[schema["$ref"].rsplit("/", 1)[-1]], schemas)
    parts = schema.get("allOf") or schema.get("oneOf")
    if parts is None:
        return schema.get("properties", {}), set(schema.get("required", []))
    properties, required = {}, []
    for part in parts:
        inner, always = merged(part, schemas)
        for name, value in inner.items():
            known = properties.setdefault(name, value)
            if "enum" in value and known is not value:
                enum = known["enum"] + [it for it in value["enum"] if it not in known["enum"]]
                properties[name] = {**known, "enum": enum}
        required.append(always)
    union = set.union if "allOf" in schema else set.intersection
    return properties, union(*required)


def summary(schema, name):
    """The first sentence of a description, as a docstring."""
    text = " ".join(schema.get("description", name).split("\n\n")[0].split())
    sentence = text.split(". ")[0].rstrip(".") + "."
    return sentence.replace("\\", "\\\\")


def wrapped(line, mark=""):
    """Wraps a line at 100 columns."""
    return textwrap.wrap(line, 100, initial_indent=mark, subsequent_indent=mark)


def docstring(doc):
    """A docstring of a class."""
    lines = textwrap.wrap(f'"""{doc}"""', 96)
    return [f"    {line}" for line in lines]


def class_text(name, base, total, doc, fields):
    """A TypedDict as a class."""
    ending = "" if total else ", total=False"
    lines = ["", "", f"class {name}({base}{ending}):", *docstring(doc), ""]
    for field, value in fields:
        lines.extend(f"    {line}" for line in alias(field, value, ": "))
    return lines if fields else lines[:-1]


def keyword_text(name, fields):
    """A TypedDict of keys that are keywords of Python, which no class can have."""
    lines = ["", "", f"{name} = TypedDict(", f'    "{name}",', "    {"]
    lines.extend(f'        "{field}": "{value}",' for field, value in fields)
    return [*lines, "    },", "    total=False,", ")"]


def definition(name, schemas):
    """The lines that define a schema."""
    schema = schemas[name]
    properties, required = merged(schema, schemas)
    doc = summary(schema, name)
    if not properties:
        return ["", *wrapped(doc, "#: "), *alias(name, annotation(schema))]
    fields = [(field, annotation(properties[field])) for field in sorted(properties)]
    bare = [pair for pair in fields if keyword.iskeyword(pair[0])]
    must = [pair for pair in fields if pair[0] in required and pair not in bare]
    may = [pair for pair in fields if pair[0] not in required and pair not in bare]
    lines, base = [], "TypedDict"
    if bare:
        base = f"_{name}Keywords"
        lines.extend(keyword_text(base, bare))
    if must and (may or bare):
        lines.extend(class_text(f"_{name}Required", base, True, f"Keys of each `{name}`.", must))
        return [*lines, *class_text(name, f"_{name}Required", False, doc, may)]
    return [*lines, *class_text(name, base, bool(must), doc, must or may)]


def alias(name, value, sign=" = "):
    """The lines of a name for a type; long ones have a line for each value."""
    if len(name) + len(value) < 92:
        return [f"{name}{sign}{value}"]
    head, _, rest = value.partition("[")
    lines = [f"{name}{sign}{head}["]
    lines.extend(f"    {part}," for part in rest[:-1].split(", "))
    return [*lines, "]"]


def literal(doc, name, schema):
    """The lines of a type with few values."""
    values = ", ".join(json.dumps(value) for value in schema["enum"])
    return ["", f"#: {doc}", *alias(name, f"Literal[{values}]")]


def text():
    """The whole file."""
    schemas = json.loads(DOCUMENT.read_text())["components"]["schemas"]
    names = needed(schemas)
    events = merged(schemas["EventKind"], schemas)[0]["type"]
    lines = literal("State of a job.", "JobState", schemas["Job"]["properties"]["state"])
    lines.extend(literal("Type of an event.", "EventType", events))
    # Aliases are evaluated at once, so they come first.
    for name in sorted(names, key=lambda name: bool(merged(schemas[name], schemas)[0])):
        if name != "EventKind":
            lines.extend(definition(name, schemas))
    return HEAD + "\n".join(lines) + "\n"


def main():
    """Writes the file, or compares it."""
    if sys.argv[1:] == ["--check"]:
        if OUTPUT.read_text() != text():
            sys.exit("src/gpool/types.py is not current: run python3 python/tools/api_types.py")
    elif sys.argv[1:]:
        sys.exit(f"usage: {sys.argv[0]} [--check]")
    else:
        OUTPUT.write_text(text())


if __name__ == "__main__":
    main()
