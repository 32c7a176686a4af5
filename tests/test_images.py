"""The Dockerfile and the conda recipe say what pyproject.toml says."""

from __future__ import annotations

import re
from typing import Any

import pytest
import release
import yaml
from packaging.requirements import Requirement
from workspace import CORE, ROOT

pytestmark = pytest.mark.lint

RECIPE: dict[str, Any] = yaml.safe_load((ROOT / "recipe/recipe.yaml").read_text(encoding="utf-8"))


def test_the_recipe_has_the_version_the_requirements_and_the_command_of_the_core() -> None:
    assert RECIPE["context"]["version"] == release.version_of(ROOT)
    assert f">={RECIPE['context']['python_min']}" == CORE.project["requires-python"]
    _, *needs = RECIPE["requirements"]["run"]
    written = {str(Requirement(each.replace(" ", ""))) for each in needs}
    assert written == {str(Requirement(each.lower())) for each in CORE.project["dependencies"]}
    (command,) = (f"{name} = {target}" for name, target in CORE.project["scripts"].items())
    assert RECIPE["build"]["python"]["entry_points"] == [command]
    assert (ROOT / "recipe" / RECIPE["source"]["path"] / RECIPE["about"]["license_file"]).resolve().is_file()


def test_the_image_has_the_oldest_python_and_the_pinned_versions() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    oldest = CORE.project["requires-python"].removeprefix(">=")
    assert set(re.findall(r"(?m)^FROM (\S+)", text)) == {f"python:{oldest}-slim"}
    assert "-c /source/constraints.txt /source" in text and "\nUSER 1000\n" in text
