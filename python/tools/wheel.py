"""Packs a wheel around a gpool that is already built: wheel.py PROGRAM FOLDER. Prints its name.

maturin builds the wheels for users (`cargo xtask wheel`), and takes no ready program. This one has
the same layout, takes seconds, and runs on this machine only. It needs Python 3.11.
"""

import base64
import hashlib
import platform
import sys
import zipfile
from pathlib import Path

import tomllib

PYTHON = Path(__file__).resolve().parent.parent


def metadata(project, version):
    """The file METADATA."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {version}",
        f"Summary: {project['description']}",
        f"License-Expression: {project['license']}",
        f"Requires-Python: {project['requires-python']}",
    ]
    lines.extend(f"License-File: {path.name}" for path in sorted(PYTHON.glob("LICENSE-*")))
    lines.extend(f"Classifier: {classifier}" for classifier in project["classifiers"])
    for extra, packages in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines.extend(f"Requires-Dist: {package} ; extra == '{extra}'" for package in packages)
    text = (PYTHON / project["readme"]).read_text()
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", text])


def entry_points(project):
    """The file entry_points.txt."""
    lines = []
    for group, names in project["entry-points"].items():
        lines.append(f"[{group}]")
        lines.extend(f"{name} = {value}" for name, value in names.items())
    return "\n".join([*lines, ""])


def contents(program, version, project):
    """The files of the wheel: path, content, and whether it is a program."""
    for path in sorted((PYTHON / "src").rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            yield path.relative_to(PYTHON / "src").as_posix(), path.read_bytes(), False
    for path in sorted(PYTHON.glob("LICENSE-*")):
        yield f"gpool-{version}.dist-info/licenses/{path.name}", path.read_bytes(), False
    yield f"gpool-{version}.data/scripts/gpool", Path(program).read_bytes(), True
    tag = f"Tag: py3-none-linux_{platform.machine()}"
    wheel = f"Wheel-Version: 1.0\nGenerator: gpool wheel.py\nRoot-Is-Purelib: false\n{tag}\n"
    yield f"gpool-{version}.dist-info/METADATA", metadata(project, version).encode(), False
    yield f"gpool-{version}.dist-info/WHEEL", wheel.encode(), False
    entries = entry_points(project).encode()
    yield f"gpool-{version}.dist-info/entry_points.txt", entries, False


def pack(program, folder):
    """Writes the wheel; returns its name."""
    project = tomllib.loads((PYTHON / "pyproject.toml").read_text())["project"]
    workspace = tomllib.loads((PYTHON.parent / "Cargo.toml").read_text())["workspace"]
    version = workspace["package"]["version"]
    name = f"gpool-{version}-py3-none-linux_{platform.machine()}.whl"
    Path(folder).mkdir(parents=True, exist_ok=True)
    record = []
    with zipfile.ZipFile(Path(folder) / name, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:
        for path, content, is_program in contents(program, version, project):
            entry = zipfile.ZipInfo(path)
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            record.append(f"{path},sha256={digest.decode()},{len(content)}")
        path = f"gpool-{version}.dist-info/RECORD"
        wheel.writestr(path, "\n".join([*record, f"{path},,", ""]))
    return name


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: {sys.argv[0]} PROGRAM FOLDER")
    print(pack(*sys.argv[1:]))
