"""``rlcore push``: what is uploaded and what is not, and what a repository keeps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlcore import SavedSummary, load_checkpoint
from rlcore_devkit.conformance.states import assert_equal
from rlcore_devkit.fixtures import RunRlcore
from rlcore_zoo.hub.contents import private_values
from rlcore_zoo.hub.curve import points
from rlcore_zoo.hub.score import interval

pytestmark = pytest.mark.xdist_group("hub")  # one training for all

PUSH = ("push", "pole", "ann/pole", "--yes", "--episodes", "0")
OF_CHECKPOINT = ("CartPole.safetensors", "configuration.yaml", "manifest.json", "run.safetensors", "state.json")
PAGES = {"README.md", "curve.png", "rlcore_upload.json"}
OF_RUN = {"configuration.yaml", "result.json", "metrics.jsonl", "CartPole.onnx"}


def best_step(run: Path) -> str:
    (found,) = (run / "checkpoints/best").iterdir()
    return found.name


def test_only_files_of_the_run_that_others_need_are_uploaded(hub: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    for name in ("notes.txt", "run_logs/worker.log", "checkpoints/4096/mine.safetensors", "CartPole/copy.onnx", ".env"):
        (pole / name).write_text("HF_TOKEN=hf_secret")
    result = run_rlcore(*PUSH)
    assert result.exit_code == 0, result.stderr
    folders = ("checkpoints/4096", f"checkpoints/best/{best_step(pole)}")
    expected = OF_RUN | {f"{folder}/{name}" for folder in folders for name in OF_CHECKPOINT}
    files = hub.repositories["ann/pole"].files
    assert set(files) == expected | PAGES | {".gitattributes"}
    assert all(content == (pole / name).read_bytes() for name, content in files.items() if name in expected)
    shown = [line.split()[-1] for line in result.stdout.splitlines() if line.startswith(" ")]
    assert set(shown) == {*expected, *PAGES, "files"}  # the last line is "in 17 files"


@pytest.mark.faults
def test_a_file_that_the_user_names_is_added(hub: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    (pole.parent.parent / "paper.txt").write_text("how it was made")
    assert run_rlcore(*PUSH, "--add", "paper.txt").exit_code == 0
    assert hub.repositories["ann/pole"].files["files/paper.txt"] == b"how it was made"
    missing = run_rlcore(*PUSH, "--add", "paper.pdf")
    assert missing.exit_code == 2 and "paper.pdf: cannot be uploaded: No such file" in missing.stderr


def test_a_dry_run_sends_nothing_and_shows_the_card(hub: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    result = run_rlcore(*PUSH, "--dry-run")
    assert result.exit_code == 0, result.stderr
    assert "library_name: rlcore" in result.stdout and "nothing was sent" in result.stdout
    assert hub.requests == [] and hub.repositories == {}


def test_nothing_is_sent_without_a_yes(hub: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    result = run_rlcore("push", "pole", "ann/pole", "--episodes", "0")
    assert result.exit_code == 2 and "--yes is missing" in result.stderr
    assert "configuration.yaml" in result.stdout  # the list comes first
    assert hub.repositories == {}


@pytest.mark.faults
def test_a_public_repository_must_be_asked_for(hub: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    assert run_rlcore(*PUSH, "--public").exit_code == 0
    assert not hub.repositories["ann/pole"].private
    again = run_rlcore(*PUSH)  # which changes no repository's visibility
    assert again.exit_code == 0 and "(public)" in again.stdout
    assert not hub.repositories["ann/pole"].private


def test_replay_buffers_stay_here_unless_they_are_asked_for(
    hub: Any, pole: Path, run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    pytest.importorskip("rlcore_dqn")
    trained = run_rlcore("run", "--env", "CartPole-v1", "--preset", "dqn", "--max-steps", "300", "--run-id", "stored")
    assert trained.exit_code == 0 and "resume       exact" in trained.stdout, trained.stderr
    whole = pole.with_name("stored") / "checkpoints/300"
    assert list(whole.glob("_frozen-*"))
    push = ("push", "stored", "ann/stored", "--yes", "--episodes", "0", "--checkpoint", "300")
    result = run_rlcore(*push)
    assert result.exit_code == 0, result.stderr
    assert "checkpoint 300: its replay buffer is left out; --replay uploads it" in result.stdout
    sent = {name: data for name, data in hub.repositories["ann/stored"].files.items() if name.startswith("checkpoints")}
    assert sent and not any("_frozen-" in name for name in sent)
    model = load_checkpoint(whole)["CartPole"]["model"]
    assert run_rlcore("pull", "ann/stored", "--run-id", "theirs").exit_code == 0
    copy = load_checkpoint(pole.with_name("theirs") / "checkpoints/300")
    assert_equal(copy["CartPole"]["model"], model)
    assert copy["run"]["resume"]["reasons"] == ["the replay buffer was not uploaded"]
    resumed = run_rlcore("run", "--resume", "--run-id", "theirs", "--max-steps", "400")
    assert resumed.exit_code == 0 and "the checkpoint has no replay buffer" in resumed.stderr
    assert run_rlcore(*push, "--replay").exit_code == 0
    files = hub.repositories["ann/stored"].files
    assert all(files[f"checkpoints/300/{file.name}"] == file.read_bytes() for file in whole.iterdir())


# ---------------------------------------------------------------- what others must not read


@pytest.mark.parametrize(
    ("block", "found"),
    [
        ({"checkpoint_settings": {"results_dir": "/home/ann/results"}}, "checkpoint_settings.results_dir (/home/ann"),
        ({"plugins": {"local": ["/home/ann/hooks.py"]}}, "plugins.local[0] (/home/ann/hooks.py)"),
        ({"environment": {"options": {"save": "~/maps"}}}, "environment.options.save (~/maps)"),
        ({"environment": {"id": "C:\\games\\walker.exe"}}, "environment.id (C:"),
        ({"environment": {"options": {"api_key": "abc"}}}, "environment.options.api_key (looks like a secret)"),
        (
            {"stats": {"mlflow": {"tracking_uri": "https://ann:abc@ml.example"}}},
            "stats.mlflow.tracking_uri (looks like",
        ),
        ({"a": {"uri": "postgresql://:abc@db/x"}}, "a.uri (looks like a secret)"),
        ({"a": {"uri": "https://abc@ml.example"}}, "a.uri (looks like a secret)"),
        ({"a": ["see https://x.example/y?v=1&access_token=abc"]}, "a[0] (looks like a secret)"),
    ],
)
def test_places_of_a_machine_and_secrets_are_found(block: Any, found: str) -> None:
    (text,) = private_values(block)
    assert text.startswith(found) and "abc" not in text


def test_names_are_not_taken_for_places() -> None:
    block = {
        "environment": {"id": "ALE/Pong-v5", "wrappers": ["gymnasium.wrappers:TimeAwareObservation"]},
        "checkpoint_settings": {"results_dir": "results", "init_path": "results/old"},
        "tokens": 5,
        "password": None,
        "separator": "/",
        "page": "https://example.org/@ann?page=2",
    }
    assert list(private_values(block)) == []


@pytest.mark.learning
def test_a_run_that_names_a_place_is_refused_until_that_is_allowed(
    hub: Any, trained: Path, run_rlcore: RunRlcore, tmp_path: Path
) -> None:
    configuration = (trained.parent.parent / "pole.yaml").read_text()
    (tmp_path / "working/pole.yaml").write_text(configuration)
    elsewhere = tmp_path / "elsewhere"
    assert run_rlcore("run", "pole.yaml", "--results-dir", elsewhere, "--max-steps", "512").exit_code == 0
    push = ("push", elsewhere / "pole", "ann/pole", "--yes", "--episodes", "0")
    refused = run_rlcore(*push)
    assert refused.exit_code == 2 and f"checkpoint_settings.results_dir ({elsewhere})" in refused.stderr
    assert hub.requests == []
    assert run_rlcore(*push, "--allow-private").exit_code == 0


# ---------------------------------------------------------------- what a repository keeps


def test_an_upload_replaces_the_one_before_and_leaves_files_of_others(
    hub: Any, pole: Path, run_rlcore: RunRlcore
) -> None:
    assert run_rlcore(*PUSH, "--checkpoint", "2048").exit_code == 0
    repository = hub.repositories["ann/pole"]
    repository.commit({**repository.files, "paper.pdf": b"by hand"}, "add a paper")
    result = run_rlcore(*PUSH, "--checkpoint", "4096")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("deleted there") == len(OF_CHECKPOINT)
    folders = {name.rpartition("/")[0] for name in repository.files}
    assert folders == {"", "checkpoints/4096"} and repository.files["paper.pdf"] == b"by hand"


@pytest.mark.faults
def test_files_that_another_wrote_are_not_replaced(hub: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    assert run_rlcore(*PUSH).exit_code == 0
    repository = hub.repositories["ann/pole"]
    repository.commit({"README.md": b"# A poem", "weights.bin": b"1"}, "another model")
    refused = run_rlcore(*PUSH)
    assert refused.exit_code == 2 and "would replace: README.md;" in refused.stderr
    assert repository.files == {"README.md": b"# A poem", "weights.bin": b"1"}
    assert run_rlcore(*PUSH, "--force").exit_code == 0
    assert b"CartPole" in repository.files["README.md"] and repository.files["weights.bin"] == b"1"


def test_an_upload_does_not_cover_a_commit_that_came_first(hub: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    assert run_rlcore(*PUSH, "--checkpoint", "2048").exit_code == 0
    repository = hub.repositories["ann/pole"]
    hub.meanwhile = lambda: repository.commit({**repository.files, "metrics.jsonl": b"of another"}, "another")
    result = run_rlcore(*PUSH)
    assert result.exit_code == 5 and "the repository was changed meanwhile (412)" in result.stderr
    assert repository.files["metrics.jsonl"] == b"of another" and "checkpoints/4096/state.json" not in repository.files


FAILURES = {
    "unknown token": ("create", 401, "does not know who you are"),
    "no right": ("/preupload", 403, "may not do this (403)"),
    "another commit meanwhile": ("/commit/", 412, "the repository was changed meanwhile"),
    "a broken hub": ("/api/models", 500, "answered with an error (500)"),
    "storage of large files": ("PUT /lfs/", 403, "the upload failed, and nothing was changed there"),
}


@pytest.mark.faults
@pytest.mark.parametrize("name", FAILURES)
def test_a_refusal_of_the_hub_is_one_message(hub: Any, pole: Path, run_rlcore: RunRlcore, name: str) -> None:
    part, status, message = FAILURES[name]
    hub.failures = {part: status}
    result = run_rlcore(*PUSH)
    assert result.exit_code == 5 and result.stderr.count("\n") == 1, result.stderr
    assert f"ann/pole at {hub.endpoint}: " in result.stderr and message in result.stderr
    assert not any("configuration.yaml" in each.files for each in hub.repositories.values())
    hub.failures = {}
    assert run_rlcore(*PUSH).exit_code == 0


@pytest.mark.parametrize("repository", ["pole", "ann/", "ann/po le", "a/b/c"])
def test_a_name_that_is_no_repository_is_refused(hub: Any, pole: Path, run_rlcore: RunRlcore, repository: str) -> None:
    result = run_rlcore("push", "pole", repository, "--yes")
    assert result.exit_code == 2 and repr(repository) in result.stderr and hub.requests == []


@pytest.mark.faults
def test_a_damaged_or_absent_checkpoint_is_not_uploaded(hub: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    absent = run_rlcore(*PUSH, "--checkpoint", "4097")
    assert absent.exit_code == 5 and "there is no checkpoint '4097'" in absent.stderr and "4096" in absent.stderr
    state = pole / "checkpoints/4096/state.json"
    state.write_bytes(state.read_bytes() + b" ")
    named = run_rlcore(*PUSH, "--checkpoint", "4096")
    assert named.exit_code == 5 and "4096: is damaged" in named.stderr
    assert run_rlcore(*PUSH).exit_code == 0  # the newest intact one
    assert "checkpoints/2048/state.json" in hub.repositories["ann/pole"].files
    shutil.rmtree(pole / "checkpoints")
    nothing = run_rlcore(*PUSH)
    assert nothing.exit_code == 5 and "nothing to share" in nothing.stderr


def test_a_link_in_the_place_of_a_file_is_not_followed(hub: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    (pole / "metrics.jsonl").unlink()
    (pole / "metrics.jsonl").symlink_to("/etc/hostname")
    result = run_rlcore(*PUSH)
    assert result.exit_code == 2 and "metrics.jsonl: is a symbolic link" in result.stderr and hub.repositories == {}


# ---------------------------------------------------------------- numbers of the card


def test_the_interval_is_that_of_a_bootstrap_of_the_mean() -> None:
    from scipy.stats import binom  # which takes long, for each process that collects tests

    # Of 40 episodes that are won or lost with equal shares, a resampled mean is a binomial number over 40.
    low, high = binom.ppf((0.025, 0.975), 40, 0.5) / 40
    assert interval([0.0, 1.0] * 20) == (low, high)
    assert interval([500.0] * 5) == (500.0, 500.0)
    assert interval([3.0]) is None
    values = np.random.default_rng(1).normal(10, 2, 400)
    found = interval(values.tolist())
    assert found is not None
    margin = 1.96 * values.std() / 20  # the normal approximation
    np.testing.assert_allclose(found, (values.mean() - margin, values.mean() + margin), atol=0.03)


def test_the_curve_has_finite_points_in_the_order_of_steps() -> None:
    tag = "Environment/Cumulative Reward"
    lines = [(200, 2.0), (100, 1.0), (200, 3.0), (300, None), (400, float("inf"))]
    summaries = [SavedSummary("A", step, 0.0, {tag: value}) for step, value in lines]
    assert points(summaries) == {"training episodes": [(100, 1.0), (200, 3.0)]}
    both = [*summaries, SavedSummary("B", 50, 0.0, {"Evaluation/Cumulative Reward": 7.0})]
    assert points(both)["B: evaluations"] == [(50, 7.0)]


@pytest.mark.faults
def test_two_uploads_of_one_run_are_equal(hub: Any, pole: Path, run_rlcore: RunRlcore) -> None:
    assert run_rlcore(*PUSH).exit_code == 0
    first = dict(hub.repositories["ann/pole"].files)
    assert run_rlcore(*PUSH).exit_code == 0
    assert hub.repositories["ann/pole"].files == first
    assert json.loads(first["rlcore_upload.json"])["files"] == sorted(set(first) - {".gitattributes"})
