"""Prints what PyPI's valohai-yaml says about files: verdict, and the command lines of each step."""

import json
import sys
from pathlib import Path

from valohai_yaml.lint import lint_file
from valohai_yaml.objs import Config
from valohai_yaml.utils import read_yaml

# Values beside the defaults; a step gets those of its own parameters.
GIVEN = {
    "epochs": 7, "lr": 0.00002, "greeting": "a b", "tags": ["x", "y z"], "layers": [1], "fast": True,
    "cache": False, "amp": True, "check": True, "none": ["q"], "text": "it's", "word": "$HOME",
    "mode": "slow", "a": "z", "rows": 1,
}


def answer(path):
    result = lint_file(str(path))
    verdict = "error" if result.error_count else "warning" if result.warning_count else "ok"
    steps = {}
    if verdict != "error":
        config = Config.parse(read_yaml(path.read_text()))
        for name, step in config.steps.items():
            given = {key: value for key, value in GIVEN.items() if key in step.parameters}
            given = {
                key: value for key, value in given.items()
                if isinstance(value, list) == bool(step.parameters[key].multiple)
            }
            steps[name] = {
                "defaults": step.build_command({}),
                "given": given,
                "with_given": step.build_command(given),
            }
    return {"verdict": verdict, "steps": steps}


if __name__ == "__main__":
    answers = {}
    for folder in ("right", "wrong"):
        for path in sorted((Path(sys.argv[1]) / folder).glob("*.yaml")):
            answers[f"{folder}/{path.name}"] = answer(path)
    print(json.dumps(answers, indent=1, sort_keys=True, ensure_ascii=False))
