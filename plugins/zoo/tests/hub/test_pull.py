"""``rlcore pull`` trusts neither names nor sizes nor contents nor configurations of a repository."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from rlcore_devkit.fixtures import RunRlcore

pytestmark = pytest.mark.xdist_group("hub")  # one training for all

PULL = ("pull", "ann/pole", "--run-id", "theirs")
WEIGHTS = "checkpoints/4096/CartPole.safetensors"


def changed(repository: Any, **files: bytes) -> None:
    repository.commit({**repository.files, **files}, "changed")


def refused(run_rlcore: RunRlcore, results: Path, message: str, *options: str, code: int = 5) -> str:
    """A pull that fails with one message and leaves nothing."""
    before = sorted(path.name for path in results.iterdir())
    result = run_rlcore(*PULL, *options)
    assert result.exit_code == code, result.stderr
    assert message in result.stderr and result.stderr.count("\n") == 1, result.stderr
    assert sorted(path.name for path in results.iterdir()) == before
    return result.stderr


@pytest.mark.parametrize("name", ["../evil.py", "/etc/evil", "checkpoints/../../evil", "a\\..\\evil", "C:evil"])
def test_a_name_that_leads_outside_is_refused(pushed: Any, pole: Path, run_rlcore: RunRlcore, name: str) -> None:
    changed(pushed, **{name: b"print()"})
    refused(run_rlcore, pole.parent, f"names a file outside of the repository, {name!r}; nothing was downloaded")


def test_only_files_of_a_run_are_downloaded(hub: Any, pushed: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    others = (
        "hooks.py",
        "rlcore_run.json",
        ".lock",
        "run_logs/x.json",
        "checkpoints/4096/x.pt",
        "checkpoints/x/state.json",
    )
    changed(pushed, **dict.fromkeys(others, b"{}"))
    hub.requests.clear()
    result = run_rlcore(*PULL)
    assert result.exit_code == 0, result.stderr
    place = pole.parent / "theirs"
    found = {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
    expected = {name for name in pushed.files if name.startswith("checkpoints/")} - set(others)
    assert found == expected | {"README.md", "configuration.yaml", "result.json", "metrics.jsonl", "pulled_from.json"}
    assert not any(path.endswith(others) for _, path in hub.requests)
    assert all(name in result.stdout for name in others)
    assert not any(path.is_symlink() for path in place.rglob("*"))


def test_a_run_that_is_too_large_is_refused_before_it_is_downloaded(
    hub: Any, pushed: Any, pole: Path, run_rlcore: RunRlcore
) -> None:
    hub.sizes = {WEIGHTS: 11 * 10**9}
    hub.requests.clear()
    refused(run_rlcore, pole.parent, "has 11.0 GB, more than 10.0 GB; --max-size")
    assert not any("/resolve/" in path for _, path in hub.requests)
    hub.sizes = {WEIGHTS: 10**17}
    refused(run_rlcore, pole.parent, "left, and the run needs", "--max-size", "900000TB")


def test_a_file_of_another_size_than_announced_is_refused(
    hub: Any, pushed: Any, pole: Path, run_rlcore: RunRlcore
) -> None:
    hub.sizes = {"result.json": 10}
    refused(run_rlcore, pole.parent, "bytes instead of 10")


def test_a_download_that_breaks_off_leaves_nothing_and_continues(
    hub: Any, pushed: Any, pole: Path, run_rlcore: RunRlcore, impatient: None
) -> None:
    hub.cut = {WEIGHTS: 5000}
    refused(run_rlcore, pole.parent, "cannot be reached: ")
    whole = {path for method, path in hub.requests if method == "GET" and "/resolve/" in path and WEIGHTS not in path}
    assert whole
    hub.cut, hub.requests = {}, []
    result = run_rlcore(*PULL)
    assert result.exit_code == 0, result.stderr
    assert (pole.parent / "theirs" / WEIGHTS).read_bytes() == pushed.files[WEIGHTS]
    assert whole.isdisjoint(path for method, path in hub.requests if method == "GET")  # they are in the cache


@pytest.mark.faults
def test_the_next_pull_clears_what_a_killed_one_left_and_nothing_else(
    hub: Any, pushed: Any, pole: Path, run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    results = pole.parent
    others = [results / f".rlcore-tmp-{name}" for name in ("theirs-0123456789abcdef", "others-0123456789abcdef")]
    for other in others:
        other.mkdir()
        (other / "configuration.yaml").write_text("of another program")
    before = {path.name for path in results.iterdir()}
    begun = Event()
    end = Event()

    def waits(file: str) -> None:
        if file == WEIGHTS:
            begun.set()
            end.wait(60)

    hub.downloading = waits
    pulling = subprocess.Popen(
        [sys.executable, "-m", "rlcore", *PULL],
        cwd=results.parent,
        env={**os.environ, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"},
    )
    try:
        assert begun.wait(60)
        refused(run_rlcore, results, "theirs: another process is pulling this run; wait or stop it")
    finally:
        pulling.kill()
        pulling.wait()
        end.set()
    left = {path.name for path in results.iterdir()} - before
    assert any(re.fullmatch(r"\.rlcore-tmp-theirs-[0-9a-f]{16}", name) for name in left), left
    result = run_rlcore(*PULL)
    assert result.exit_code == 0, result.stderr
    assert {path.name for path in results.iterdir()} == before | {"theirs"}
    assert all((other / "configuration.yaml").read_text() == "of another program" for other in others)
    assert (results / "theirs" / WEIGHTS).read_bytes() == pushed.files[WEIGHTS]


@pytest.mark.parametrize("name", [WEIGHTS, "checkpoints/4096/state.json"])
def test_a_file_that_differs_from_its_checksum_is_refused(
    pushed: Any, pole: Path, run_rlcore: RunRlcore, name: str
) -> None:
    content = bytearray(pushed.files[name])
    content[-3] ^= 1
    changed(pushed, **{name: bytes(content)})
    error = refused(run_rlcore, pole.parent, "checkpoints/4096 is damaged: ")
    assert "nothing was kept" in error and ".rlcore-tmp" not in error


def test_a_repository_without_a_run_is_refused(pushed: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    pushed.commit({"README.md": b"# A poem", "configuration.yaml": b"{}"}, "another model")
    refused(run_rlcore, pole.parent, "is not a run that rlcore push uploaded")
    changed(pushed, **{"checkpoints/7/state.json": b"{}"})
    refused(run_rlcore, pole.parent, "checkpoints/7 is damaged: ")


def test_nothing_that_exists_is_replaced(hub: Any, pushed: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    hub.requests.clear()
    clash = run_rlcore("pull", "ann/pole")
    assert (
        clash.exit_code == 2
        and "results/pole: exists, and is not touched; choose another name with --run-id" in clash.stderr
    )
    (pole.parent / "theirs").symlink_to(pole.parent / "nowhere")
    refused(run_rlcore, pole.parent, "theirs: exists", code=2)
    assert hub.requests == []
    bad = run_rlcore("pull", "ann/pole", "--run-id", "../pole")
    assert bad.exit_code == 2 and "a run id is" in bad.stderr


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "cannot be reached: "),
        ({"HF_TOKEN": "hf_of_nobody"}, "there is no such repository, or it is private"),
        ({"--revision": "v9"}, "there is no revision 'v9'"),
        ({"OFFLINE": "1"}, "HF_HUB_OFFLINE is set"),
        ({"FAIL": "/tree/"}, "answered with an error (500)"),
        ({"FAIL": "/resolve/"}, "answered with an error (500)"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_hub_that_does_not_answer_is_one_message(
    hub: Any,
    pushed: Any,
    pole: Path,
    run_rlcore: RunRlcore,
    monkeypatch: pytest.MonkeyPatch,
    impatient: None,
    prepare: dict[str, str],
    message: str,
) -> None:
    ((key, value),) = prepare.items()
    options = (key, value) if key.startswith("--") else ()
    if key.startswith("HF_"):
        monkeypatch.setenv(key, value)
    elif key == "OFFLINE":
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    elif key == "FAIL":
        hub.failures = {value: 500}
    refused(run_rlcore, pole.parent, message, *options)


# ---------------------------------------------------------------- answers that are not a hub's


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (
            {"ETag": '"../../../../evil"'},
            "which is not a checksum of a file",
        ),
        ({"X_Linked_Etag": "/tmp/evil"}, "answers with the ETag '/tmp/evil', which is not a checksum"),
        ({"X_Repo_Commit": "../../evil"}, "answers with the commit '../../evil', which is not a commit"),
    ],
)
def test_a_header_that_would_become_a_path_is_refused(
    hub: Any, pushed: Any, pole: Path, run_rlcore: RunRlcore, headers: dict[str, str], message: str, tmp_path: Path
) -> None:
    hub.headers = headers
    refused(run_rlcore, pole.parent, message)
    assert not [*tmp_path.rglob("*evil*"), *pole.parent.parent.rglob("*evil*")]


def test_a_download_that_does_not_end_is_broken_off(hub: Any, pushed: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    hub.longer = 1_000_000
    refused(run_rlcore, pole.parent, "bytes that were expected; nothing was kept")


def test_a_listing_without_end_is_refused(
    hub: Any, pushed: Any, pole: Path, run_rlcore: RunRlcore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlcore_zoo.hub.download.MAX_LISTED", 50)
    hub.endless = True
    refused(run_rlcore, pole.parent, "lists more than 50 files and folders; nothing was downloaded")
    hub.endless, hub.answers = False, {"/tree/": b"[" + b" " * 33_000_000 + b"]"}
    refused(run_rlcore, pole.parent, "more than the 32,000,000 bytes that were expected")


@pytest.mark.parametrize("part", ["/tree/", "GET /api/models/ann/pole"])
@pytest.mark.parametrize("answer", [b"<html>", b"[[]]", b'{"sha": 7}', b"null", b'[{"type": "file"}]'])
def test_an_answer_of_another_form_is_one_message(
    hub: Any, pushed: Any, pole: Path, run_rlcore: RunRlcore, part: str, answer: bytes
) -> None:
    hub.answers = {part: answer}
    assert "unexpected" not in refused(run_rlcore, pole.parent, "ann/pole at http://127.0.0.1:")


# ---------------------------------------------------------------- code that a configuration names


def sealed(text: str) -> bytes:
    """A configuration with the checksum that rlcore writes into its first line."""
    return f"# Written by rlcore. SHA-256 of what follows: {hashlib.sha256(text.encode()).hexdigest()}\n{text}".encode()


def with_configuration(repository: Any, folder: str, old: str, new: str) -> None:
    """Change a configuration of the run, and the checksums that show it."""
    name = f"{folder}configuration.yaml"
    text = repository.files[name].decode().partition("\n")[2]
    assert len(re.findall(old, text)) == 1, old
    content = sealed(re.sub(old, lambda match: new, text))
    files = {name: content}
    if folder:
        manifest = json.loads(repository.files[f"{folder}manifest.json"])
        manifest["files"]["configuration.yaml"] = {
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        files[f"{folder}manifest.json"] = json.dumps(manifest).encode()
    changed(repository, **files)


CODE = {
    "an environment's module": ("  id: CartPole-v1", "  id: evil:Game-v0", "environment 'evil:Game-v0'"),
    "a wrapper": (r"  wrappers: \[\]", "  wrappers: ['evil:Wrapper']", "environment 'evil:Wrapper'"),
    "a local plugin": (r"  local: \[\]", "  local: [evil.py]", "plugin 'evil.py'"),
    "a module of a plugin": (r"  enable: \[\]", "  enable: ['module:evil']", "plugin 'evil'"),
    "a program": ("  id: CartPole-v1", "  id: /bin/sh", "environment.id: '/bin/sh'"),
    "a statistics writer": (
        r"stats: \{\}",
        "stats: {wandb: {entity: evil}}",
        "stats.wandb: a statistics writer that may send them somewhere",
    ),
    "an address": (
        "  workers: null",
        "  workers: {executor: ray, count: 2, bind: 0.0.0.0, allow_public_bind: true}",
        "environment.workers.bind: '0.0.0.0', environment.workers.allow_public_bind: true",
    ),
    "a file": (
        r"  options: (null|\{\})",
        "  options: {xml_file: /etc/passwd}",
        "environment.options.xml_file: '/etc/passwd'",
    ),
}


@pytest.mark.parametrize("folder", ["", pytest.param("checkpoints/4096/", marks=pytest.mark.faults)])
@pytest.mark.parametrize("name", CODE)
def test_a_configuration_that_has_code_run_is_refused(
    pushed: Any, pole: Path, run_rlcore: RunRlcore, name: str, folder: str
) -> None:
    old, new, named = CODE[name]
    with_configuration(pushed, folder, old, new)
    refused(run_rlcore, pole.parent, f"installed: {named}; nothing was kept; --allow-local keeps it", code=2)


def test_code_is_kept_if_the_user_allows_it(pushed: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    with_configuration(pushed, "", "  id: CartPole-v1", "  id: evil:Game-v0")
    result = run_rlcore(*PULL, "--allow-local")
    assert (
        result.exit_code == 0
        and "names more than plugins that you installed: environment 'evil:Game-v0'\n" in result.stderr
    )
    assert "evil:Game-v0" in (pole.parent / "theirs/configuration.yaml").read_text()


def test_a_dry_run_downloads_nothing(hub: Any, pushed: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    hub.requests.clear()
    result = run_rlcore(*PULL, "--dry-run")
    assert result.exit_code == 0 and WEIGHTS in result.stdout and pushed.head in result.stdout
    assert not (pole.parent / "theirs").exists() and not any("/resolve/" in path for _, path in hub.requests)


def test_the_answers_of_json_have_files_visibility_and_places(hub: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    dry = run_rlcore("push", "pole", "ann/pole", "--episodes", "0", "--dry-run", "--json")
    planned = json.loads(dry.stdout)
    assert planned["address"] is None and planned["visibility"] == "private" and hub.repositories == {}
    sent = json.loads(run_rlcore("push", "pole", "ann/pole", "--episodes", "0", "--yes", "--json").stdout)
    assert "ann/pole" in sent["address"] and {**sent, "address": None} == planned
    listed = json.loads(run_rlcore(*PULL, "--dry-run", "--json").stdout)
    assert listed["directory"] is None and WEIGHTS in listed["files"]
    pulled = json.loads(run_rlcore(*PULL, "--json").stdout)
    assert Path(pulled["directory"]).name == "theirs" and pulled["code"] == []
    assert {**pulled, "directory": None} == listed
