"""The generated reference matches the code."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import api_reference
import attrs
import pytest
import yaml
from workspace import MEMBERS, ROOT

from rlcore import (
    HOOKS,
    BehaviorSettings,
    CheckpointSettings,
    FieldInfo,
    hookspecs,
    load_plugins,
)
from rlcore.plugins.known import PACKAGES
from rlcore_migrate.mlagents_keys import DEFAULTS_ONLY
from rlcore_poca.settings import POCASettings
from rlcore_ppo.settings import PPOSettings
from rlcore_sac.settings import SACSettings
from rlcore_torch import NetworkSettings, TorchSettings

pytestmark = pytest.mark.documentation


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


generate = module(ROOT / "docs/generate.py")
examples = module(ROOT / "docs/hook_examples.py")

SPECIFIED = [name for name, _ in inspect.getmembers(hookspecs, inspect.isfunction) if name.startswith("rlcore_")]


# ---------------------------------------------------------------- hooks


def test_every_specified_hook_is_in_the_table_of_hooks() -> None:
    assert sorted(SPECIFIED) == sorted(hook.name for hook in HOOKS)


@pytest.mark.parametrize("name", SPECIFIED)
def test_a_hook_is_documented_with_its_signature_its_text_and_an_example(name: str) -> None:
    page: str = generate.hooks_page()
    section = re.split(r"\n##+ ", page.split(f"\n### {name}\n")[1])[0]
    words = re.findall(r"\w+", inspect.getdoc(getattr(hookspecs, name)) or "")
    assert " ".join(word for word in words if word not in ("class", "func")) in " ".join(re.findall(r"\w+", section))
    shown, example = section.split("Example:")
    assert f"def {name}(" in shown and f"def {name}(" in example


def test_the_examples_are_one_valid_plugin_with_every_hook() -> None:
    plugins = load_plugins()
    plugins.register(examples, "examples")  # checks names, arguments and wrappers
    label = plugins.loaded[-1].label
    added = {name for _, each in generate.added_hooks() for name in vars(each) if name.startswith("rlcore_")}
    assert set(SPECIFIED) <= set(plugins.implemented(label)) <= {*SPECIFIED, *added}
    for kind in plugins.kinds:
        assert [record.summary for record in plugins.records(kind)] != [""]


# ---------------------------------------------------------------- settings


def settings_classes() -> Iterator[type]:
    yield from (cls for _, cls in generate.CORE_BLOCKS)
    yield from (cls for _, cls, _ in generate.plugin_blocks())


@pytest.mark.parametrize("cls", list(settings_classes()), ids=lambda cls: cls.__name__)
def test_every_setting_has_a_description_and_is_documented(cls: type) -> None:
    assert (cls.__doc__ or "").strip()
    page = generate.settings_page()
    for key, attribute in FieldInfo.fields_of(cls).items():
        if key == "sections":
            continue
        description = FieldInfo.of(attribute).description
        assert description.endswith("."), f"{cls.__name__}.{key} needs a description that is a sentence"
        assert f"| `{key}` |" in page
        assert generate.prose(description) in page


def test_every_block_of_the_core_is_documented() -> None:
    from rlcore import settings
    from rlcore_torch import settings as of_torch
    from rlcore_torch.networks import settings as of_networks

    # The page shows the keys of these classes in every class that derives from them.
    bases = {
        of_torch.MinibatchSettings,
        of_torch.RewardScalingSettings,
        of_torch.OnPolicySettings,
        of_torch.OffPolicySettings,
        of_torch.OfflineSettings,
        of_torch.ReplaySamplerSettings,
        of_torch.OptimizerSettings,
        settings.CurriculumSettings,
        settings.PolicySettings,
    }
    of_records = {
        of_torch.PrioritizedSamplerSettings,
        of_torch.AdamSettings,
        of_torch.AdamWSettings,
        of_torch.RAdamSettings,
        of_networks.StateDependentGaussianSettings,
        of_networks.GSDESettings,
        of_networks.SquashedGSDESettings,
        of_networks.ImpalaSettings,
        settings.ExtrinsicSettings,
    }
    declare_fields = {settings.Choice, settings.FieldInfo}
    defined = {
        cls
        for module in (settings, of_torch, of_networks)
        for _, cls in inspect.getmembers(module, attrs.has)
        if f"{cls.__module__}.".startswith(f"{module.__name__}.")
    }
    assert defined - bases - of_records - declare_fields == {cls for _, cls in generate.CORE_BLOCKS}


# The rows of "Keys of ML-Agents" that list keys, and the keys of each class that another row describes.
LISTED: dict[str, tuple[type, set[str]]] = {
    "`hyperparameters` of `ppo`": (PPOSettings, set()),
    "`hyperparameters` of `poca`": (POCASettings, set()),
    "`hyperparameters` of `sac`": (SACSettings, set()),
    "`network_settings`": (NetworkSettings, set()),
    "other keys of a behavior": (
        BehaviorSettings,
        {"trainer_type", "hyperparameters", "network_settings", "reward_signals"},
    ),
    "`checkpoint_settings`": (CheckpointSettings, set()),
    "`torch_settings`": (TorchSettings, set()),
}


@pytest.mark.parametrize("row", LISTED)
def test_the_page_for_ml_agents_lists_every_key_where_it_belongs(row: str) -> None:
    page = (ROOT / "docs/how-to/mlagents-keys.md").read_text(encoding="utf-8")
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {row} |"))
    columns = [set(re.findall(r"`(\w+)", cell)) for cell in line.split("|")[2:5]]
    cls, elsewhere = LISTED[row]
    expected: list[set[str]] = [set(), set(), set()]  # supported, not supported yet, new here
    for key, attribute in FieldInfo.fields_of(cls).items():
        info = FieldInfo.of(attribute)
        new = "(an rlcore key" in info.description
        if key not in elsewhere:
            expected[2 if new else 0].add(key)
    expected[1] = set(DEFAULTS_ONLY.get(row.strip("`"), ()))
    expected[0].discard("sections")  # an attribute, not a key
    if cls is BehaviorSettings:
        expected[0] |= {key for kind, key in PACKAGES if kind == "behavior"}
    if line.split("|")[2].strip() == "all":
        assert not expected[1]
        columns[0] = expected[0]
    assert columns == expected


KEYS_OF_ML_AGENTS = yaml.safe_load((Path(__file__).parent / "data/keys_of_ml_agents.yaml").read_text("utf-8"))


@pytest.mark.parametrize("block", KEYS_OF_ML_AGENTS)
def test_the_pages_for_ml_agents_say_something_of_every_key(block: str) -> None:
    pages = ("docs/how-to/mlagents.md", "docs/how-to/mlagents-keys.md")
    page = "\n".join((ROOT / each).read_text(encoding="utf-8") for each in pages)
    named = {word for code in re.findall(r"`([^`\n]+)`", page) for word in re.findall(r"\w+", code)}
    assert set(KEYS_OF_ML_AGENTS[block].split()) <= named


# ---------------------------------------------------------------- command line


def test_every_command_and_option_is_documented() -> None:
    page = generate.cli_page()
    commands = list(generate.commands())
    owners = {owner for _, _, owner in commands}
    assert {"", "rlcore-ghost", "rlcore-pettingzoo", "rlcore-study"} <= owners <= {"", *(each.name for each in MEMBERS)}
    for path, command, _ in commands:
        section = re.split(r"\n## ", page.split(f"\n## {' '.join(path)}\n")[1])[0]
        shown = [
            each for each in command.params if not getattr(each, "hidden", False)
        ]  # --resume auto is --resume-auto
        for parameter in shown:
            assert all(option in section for option in parameter.opts if option.startswith("-"))


# ---------------------------------------------------------------- architecture


def architecture() -> str:
    return (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


def test_the_architecture_page_has_a_picture_and_a_paragraph_of_each_room_of_the_core() -> None:
    section = architecture().split("\n## Packages of the core\n")[1].split("\n## ")[0]
    introduction, *rooms = re.split(r"\n### (?=`)", section.split("\n### Layers\n")[0])
    named = [room.split("`")[1] for room in rooms]
    there = {
        path.stem
        for path in (ROOT / "core/src/rlcore").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert sorted(named) == sorted(name for name in there if not name.startswith("_"))
    assert set(named) <= set(re.findall(r"\w+", introduction.split("```text\n")[1].split("```")[0]))
    assert [room for room in rooms if len(room.split()) < 15] == []


def test_the_modules_that_the_paragraph_of_a_room_names_exist() -> None:
    section = architecture().split("\n## Packages of the core\n")[1].split("\n## ")[0]
    core = ROOT / "core/src/rlcore"
    missing = []
    for room in re.split(r"\n### (?=`)", section.split("\n### Layers\n")[0])[1:]:
        name = room.split("`")[1]
        text = room.partition("\n")[2]
        for path in re.findall(r"`([\w/]+(?:\.py|/))`", text):
            missing += [] if (core / name / path).exists() or (core / path).exists() else [f"{name}: {path}"]
    assert missing == []


def test_the_page_of_plugins_has_every_member() -> None:
    page = generate.plugins_page().partition("\n## ")[0]
    shown = re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)
    assert sorted(shown) == sorted(member.name for member in MEMBERS if member.name != "rlcore")


def test_the_page_of_plugins_has_every_package_that_is_tried_each_night() -> None:
    tried = generate.plugins_page().partition("\n## Tried every night\n")[2].partition("\n## ")[0]
    places = re.findall(r"\| `(examples/\w+)` \|$", tried, re.MULTILINE)
    assert sorted(places) == sorted(path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("examples/*/src"))


def test_the_files_in_which_rules_live_exist() -> None:
    rules = (ROOT / "docs/rules.md").read_text(encoding="utf-8")
    rows = [line.split("|")[2] for line in rules.splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`([\w/]+\.py)`", row)}
    roots = [ROOT / "core/src/rlcore", *(member.directory / "src" for member in MEMBERS)]
    assert len(named) > 60
    assert [name for name in sorted(named) if not any((root / name).is_file() for root in roots)] == []


def test_the_architecture_page_shows_the_layers_that_are_checked() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    (layers,) = (contract["layers"] for contract in tools["importlinter"]["contracts"] if contract["type"] == "layers")
    checked = [sorted(name for name in re.findall(r"\w+", layer) if not name.startswith("_")) for layer in layers]
    shown = architecture().split("The rooms form")[1].split("```text\n")[1].split("```")[0]
    assert [sorted(line.split()) for line in shown.splitlines()] == [layer for layer in checked if layer]


# ---------------------------------------------------------------- the site


def test_pages_about_hooks_and_settings_are_printed_without_the_tools_of_the_site() -> None:
    """A checkout with what ``pip install .`` brings has neither griffe nor MkDocs."""
    start = (
        "import runpy, sys; sys.argv = sys.argv[1:]; sys.path.insert(0, 'docs');"
        "sys.modules |= dict.fromkeys(['griffe', 'mkdocs', 'nbformat']);"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", start, "docs/generate.py", "hooks"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, generate.hooks_page() + "\n"), done.stderr


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = yaml.safe_load(text[text.index("\nnav:") :])["nav"]
    listed = set(re.findall(r"[\w/-]+\.md", str(navigation)))
    written = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert listed == written | set(generate.pages())


def require_markdown_pages(site: Path) -> None:
    """Each HTML page is a Markdown page too, whose links lead to Markdown pages, and llms.txt lists all of them."""
    html = {path.parent.relative_to(site).as_posix() for path in site.rglob("index.html")}
    written = {path.relative_to(site).as_posix(): path for path in site.rglob("*.md")}
    assert {re.sub(r"(^|/)index$", "", name.removesuffix(".md")) or "." for name in written} == html
    index = (site / "llms.txt").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", index, re.MULTILINE)
    assert sorted(listed) == sorted(written)
    full = (site / "llms-full.txt").read_text(encoding="utf-8")
    for name, path in written.items():
        text = path.read_text(encoding="utf-8")
        assert text.strip() in full
        assert "\n::: " not in text and "<svg" not in text and "][rlcore" not in text, name
        prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)
        links = re.findall(r"\]\(([^)#:\s]+\.md)(?:#[^)]*)?\)", prose)
        assert [link for link in links if not (path.parent / link).is_file()] == [], name
    assert "RewardProvider" in (site / "reference/api/rewards.md").read_text(encoding="utf-8")
    assert "def evaluate" not in index and "### rlcore.RewardProvider.evaluate" in full


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="pip install mkdocs-material")
    pytest.importorskip("mkdocstrings", reason="pip install mkdocstrings-python")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(tmp_path)))
    assert "rlcore_create_trainer" in (tmp_path / "reference/hooks/index.html").read_text(encoding="utf-8")
    for page, names in api_reference.reference().items():
        text = (tmp_path / f"reference/api/{page}/index.html").read_text(encoding="utf-8")
        assert [name.path for name in names if f'id="{name.path}"' not in text] == []
    require_markdown_pages(tmp_path)
    guide = (tmp_path / "how-to/environment/index.html").read_text(encoding="utf-8")
    assert 'href="../../reference/api/environments/#rlcore.ObservationSpec"' in guide
