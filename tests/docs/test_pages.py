"""The README and the pages work as shown.

Blocks of YAML are validated, and blocks of Python compiled and their imports resolved. ``test_claims.py`` checks names.
"""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Any

import attrs
import generate
import pytest
from notebooks import NOTEBOOKS
from pages import PAGES, Block, blocks, run_python_of
from workspace import ROOT

from rlcore import (
    BehaviorSettings,
    ConfigErrors,
    EnvironmentSettings,
    Plugins,
    config_from_mapping,
    load_config,
    load_plugins,
    read_document,
)
from rlcore.config.presets import with_each_preset
from rlcore_zoo.collection import names, path_of

pytestmark = pytest.mark.documentation

# The configurations in the packages need the plugin beside them; packaging tests install and run them.
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


# ---------------------------------------------------------------- README


def test_the_readme_begins_with_the_two_commands() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("pip install")][:2] == [
        "pip install -c constraints.txt . && rlcore run examples/cartpole.yaml",
        "pip install -r requirements-dev.txt && pytest",
    ]


# Generated when the site is built; a checkout does not contain them.
GENERATED = {ROOT / "docs" / name for name in (*generate.pages(), *NOTEBOOKS)}


def links(page: Path) -> set[Path]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return {(page.parent / target).resolve() for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_links_to_exist(page: Path) -> None:
    assert {linked for linked in links(page) if not linked.exists()} <= GENERATED


@pytest.mark.parametrize("page", [page for page in PAGES if links(page) & GENERATED], ids=lambda page: page.name)
def test_a_page_that_links_to_a_generated_page_explains_how_to_build_it(page: Path) -> None:
    assert "mkdocs serve" in page.read_text(encoding="utf-8")


# ---------------------------------------------------------------- configurations


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT / "examples")))
def test_an_example_is_valid(example: Path, plugins: Plugins) -> None:
    assert load_config(read_document(example), plugins).behaviors


# The pages about self-play begin with this example, which needs no zoo.
REPEATED = {("tictactoe.yaml", "ghost/tictactoe-v3")}


def test_no_other_example_trains_what_a_file_of_the_zoo_trains_and_this_one_does_not_drift_from_it(
    plugins: Plugins,
) -> None:
    files = {name: path_of(name) for name in names()}
    pairs = [(example, name) for example in EXAMPLES for name in files if world_of(example) == world_of(files[name])]
    assert len(pairs) > len(REPEATED)
    found = {
        (example.name, name) for example, name in pairs if training(example, plugins) == training(files[name], plugins)
    }
    assert found == REPEATED


def world_of(path: Path) -> object:
    return read_document(path).data["environment"].get("id", path)


def training(path: Path, plugins: Plugins) -> tuple[EnvironmentSettings | None, list[BehaviorSettings]]:
    """The training of a configuration, whatever its names, and however often it reports, saves and evaluates."""
    config = load_config(read_document(path), plugins)
    behaviors = config.behaviors.values()
    return config.environment, [attrs.evolve(each, summary_freq=1, checkpoint_interval=1) for each in behaviors]


# Titled blocks may need the plugin of their page; tests below run them.
@pytest.mark.parametrize("block", [b for b in blocks("yaml") if not b.title and not b.invalid], ids=str)
def test_a_shown_configuration_is_valid(block: Block, plugins: Plugins, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(block.text)
    for document in with_each_preset(read_document(file), plugins).values():
        assert load_config(document, plugins).behaviors


@pytest.mark.parametrize("block", [b for b in blocks("yaml") if b.invalid], ids=str)
def test_a_shown_mistake_is_refused(block: Block, plugins: Plugins, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(block.text)
    with pytest.raises(ConfigErrors):
        load_config(read_document(file), plugins)


# ---------------------------------------------------------------- Python


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_shown_python_compiles_and_imports_what_exists(block: Block) -> None:
    tree = ast.parse(block.text, str(block))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rlcore"):
            assert node.module is not None
            imported = importlib.import_module(node.module)
            assert [alias.name for alias in node.names if not hasattr(imported, alias.name)] == []


def test_the_python_pages_run_from_top_to_bottom_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        names = run_python_of("docs/how-to/python.md")
        assert names["results"]["Pole"].steps >= 6000
        assert names["finished"].metrics[-1].step == 8000
        assert run_python_of("docs/how-to/python-policies.md")["saved"].step >= 8000
    assert {path.name for path in (tmp_path / "results").iterdir()} == {"first", "own", "second", "third"}


def test_the_configuration_of_the_python_page_is_valid_by_itself(plugins: Plugins) -> None:
    first = next(block for block in blocks("python") if block.page == "docs/how-to/python.md")
    names: dict[str, Any] = {}
    exec(first.text, names)
    assert config_from_mapping(names["config"], plugins).behaviors["Pole"].max_steps == 6000
