"""The files that ``tieline init`` writes."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import yaml

from tieline_protocol.runtime_image import PYTHON

if TYPE_CHECKING:
    from tieline_catalogue.project_templates import NeededConnection, ProjectTemplate

_README = """\
# {name}

{summary}

```console
pip install 'tieline[cli]' pytest   # from your Tieline's checkout or package index
tieline check                        # what a deploy would refuse
pytest                               # other systems are fakes
{environment}tieline run
```

Deploy it, and see what it does:

```console
tieline login https://tieline.example
tieline deploy --create              # later: tieline deploy
tieline logs --follow
tieline runs list --status dead
```
"""

_NEEDED = """
The code refers to {names}: connection templates. Add them to the environment in the console, by REST, or with
manifests: `tieline manifests` writes them.
"""

_GITHUB = """\
# Needs the variables TIELINE_PACKAGE (where pip finds Tieline), TIELINE_URL and TIELINE_ORGANISATION, and the secret
# TIELINE_TOKEN: an API key of an editor.
name: integration
on:
  push: {branches: [main]}
  pull_request:
permissions: {contents: read}
concurrency: {group: "${{ github.ref }}"}
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "PYTHON"}
      - run: pip install "tieline[cli] @ ${{ vars.TIELINE_PACKAGE }}" pytest
      - run: tieline check
      - run: pytest
  deploy:
    needs: test
    if: github.event_name == 'push'
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "PYTHON"}
      - run: pip install "tieline[cli] @ ${{ vars.TIELINE_PACKAGE }}"
      - run: tieline deploy --version-name "${GITHUB_SHA::12}"
        env:
          TIELINE_URL: ${{ vars.TIELINE_URL }}
          TIELINE_ORGANISATION: ${{ vars.TIELINE_ORGANISATION }}
          TIELINE_TOKEN: ${{ secrets.TIELINE_TOKEN }}
"""

_GITLAB = """\
# Needs the CI/CD variables TIELINE_PACKAGE (where pip finds Tieline), TIELINE_URL, TIELINE_ORGANISATION, and
# TIELINE_TOKEN (masked): an API key of an editor.
default:
  image: python:PYTHON
  before_script:
    - pip install "tieline[cli] @ $TIELINE_PACKAGE" pytest
test:
  script:
    - tieline check
    - pytest
deploy:
  stage: deploy
  rules:
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
  script:
    - tieline deploy --version-name "$CI_COMMIT_SHORT_SHA"
"""

CODE = "integration"
_PYTHON = f"{PYTHON[0]}.{PYTHON[1]}"
CI_FILES: Mapping[str, tuple[str, str]] = {
    "github": (".github/workflows/integration.yaml", _GITHUB.replace("PYTHON", _PYTHON)),
    "gitlab": (".gitlab-ci.yml", _GITLAB.replace("PYTHON", _PYTHON)),
}


def _yaml(name: str) -> str:
    """A name in YAML; in quotes where it would be a number, a date or a truth value otherwise."""
    return name if yaml.safe_load(name) == name else json.dumps(name)


def scaffold(name: str, ci: str, template: "ProjectTemplate") -> dict[str, str]:
    """The files of a new project by path. ``ci`` is a key of ``CI_FILES``, or ``none``."""
    files = {
        "tieline.yaml": (
            f"# What `tieline deploy` and the other commands here are about.\nproject: {_yaml(name)}\n"
        ),
        **{f"{CODE}/{path}": content for path, content in template.files.items()},
        **template.local_files,
        "README.md": _readme(name, template),
        ".gitignore": ".tieline/\n__pycache__/\n.pytest_cache/\n.venv/\n",
    }
    if ci in CI_FILES:
        path, content = CI_FILES[ci]
        files[path] = content
    return files


def _readme(name: str, template: "ProjectTemplate") -> str:
    connections = template.local_files.get("connections.yaml", "")
    variables = dict.fromkeys(re.findall(r"\$\{(\w+)\}", connections))
    environment = "".join(
        f"{variable}={'http://localhost:9000' if variable.endswith('_URL') else 'any-key'} "
        for variable in variables
    )
    text = _README.format(name=name, summary=template.summary, environment=environment)
    return text + _needed(template.connections)


def _needed(connections: "Sequence[NeededConnection]") -> str:
    if not connections:
        return ""
    return _NEEDED.format(names=", ".join(f"`{one.name}`" for one in connections))
