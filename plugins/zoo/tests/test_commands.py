"""``rlcore zoo``: the list with its filters, one file, and the verdict of a check."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import attrs
import pytest
import yaml

from rlcore import main
from rlcore_zoo.command import SeedList, about, compared, verdict
from rlcore_zoo.entries import Entry, Measurement, Published, entries, entry_of
from rlcore_zoo.trainings import score_of


def listed(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    assert main(["zoo", "list", *options]) == 0
    return [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:-1]]


def test_the_list_has_every_file_and_filters_narrow_it(capsys: pytest.CaptureFixture[str]) -> None:
    every = entries()
    assert listed(capsys) == [entry.name for entry in every]
    assert listed(capsys, "--trainer", "ghost") == [entry.name for entry in every if entry.name.startswith("ghost/")]
    mujoco = [entry.name for entry in every if entry.world.kind == "mujoco" and "hopper" in entry.name.lower()]
    assert listed(capsys, "hopper", "--kind", "mujoco") == mujoco and len(mujoco) == 4
    both = listed(capsys, "--measured") + listed(capsys, "--not-measured")
    assert sorted(both) == [entry.name for entry in every]


def test_the_list_as_json_has_the_scores_of_the_file_of_measurements(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "list", "td3/Reacher", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    path = Path(entry_of("td3/Reacher-v5").path).parents[1] / "measured.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    scores = {str(line["seed"]): line["score"] for line in lines if line["name"] == "td3/Reacher-v5"}
    assert found["measured"]["seeds"] == scores and found["measured"]["score"] == pytest.approx(fmean(scores.values()))
    entry = entry_of("td3/Reacher-v5")
    assert Entry(name=entry.name, world=entry.world, measurements={}).to_json()["measured"] is False


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [("--trainer", "pp", "did you mean 'ppo'?"), ("--kind", "mujco", "did you mean 'mujoco'?")],
)
def test_an_unknown_filter_is_refused(option: str, value: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "list", option, value]) == 2
    assert said in capsys.readouterr().err


def test_what_show_prints_is_a_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    entry = entry_of("td3/Reacher-v5")
    assert main(["zoo", "show", entry.name]) == 0
    text = capsys.readouterr().out
    assert "pip install rlcore-td3" in text
    assert yaml.safe_load(text) == yaml.safe_load(entry.path.read_text("utf-8"))
    assert about(Entry(name=entry.name, world=entry.world, measurements={}))[-1] == "measured: false"


def test_a_score_is_judged_by_the_interval_with_its_bounds() -> None:
    entry = entry_of("td3/Reacher-v5")
    low, high = entry.interval
    assert verdict(entry, 9, low)[0] and verdict(entry, 9, high)[0] and verdict(entry, 9, entry.score)[0]
    for score in (low - 1e-9, high + 1e-9):
        inside, line = verdict(entry, 9, score)
        assert not inside and "OUTSIDE" in line and line.startswith("td3/Reacher-v5, seed 9: score ")
    unmeasured = Entry(name=entry.name, world=entry.world, measurements={})
    inside, line = verdict(unmeasured, 1, entry.score)
    assert not inside and "measured: false" in line


def test_an_interval_with_the_score_of_random_actions_in_it_proves_little_and_says_so() -> None:
    measured = entry_of("td3/Reacher-v5")
    low, high = measured.interval
    for random, said in ((low, True), (high, True), (low - 1e-9, False), (high + 1e-9, False), (None, False)):
        entry = attrs.evolve(measured, world=attrs.evolve(measured.world, random=random))
        inside, line = verdict(entry, 9, entry.score)
        assert inside and line.endswith("measure more seeds") is said
        assert any("proves little" in each for each in about(entry)) is said
        assert any(each.startswith("Random actions score -") for each in about(entry)) is (random is not None)


def test_the_ratio_to_a_published_score_is_of_what_is_above_random_actions() -> None:
    measured = entry_of("td3/Reacher-v5")
    published = Published(score=measured.score + 10, steps=measured.steps, source="a table")
    world = attrs.evolve(measured.world, random=measured.score - 30, published=published)
    entry = attrs.evolve(measured, world=world)
    assert entry.ratio == pytest.approx(0.75) and compared(entry).startswith("0.75 of ")
    assert entry.to_json()["ratio"] == pytest.approx(0.75)
    assert any(line.endswith("steps (a table).") for line in about(entry))
    longer = attrs.evolve(world, published=attrs.evolve(published, steps=4 * measured.steps, differs="v2"))
    assert compared(attrs.evolve(entry, world=longer)).endswith("(25% of the steps)")
    assert any(line.endswith("steps (a table; v2).") for line in about(attrs.evolve(entry, world=longer)))
    for without in (attrs.evolve(world, random=None), attrs.evolve(world, published=None)):
        assert attrs.evolve(entry, world=without).ratio is None
    assert Entry(name=entry.name, world=world, measurements={}).ratio is None


def test_a_score_has_what_a_group_shares_and_is_that_against_opponents() -> None:
    alone = {"mean_reward": 3.0}
    group = {"mean_reward": 1.0, "mean_group_reward": 0.5}
    assert score_of({"behaviors": {"a": alone}}) == 3.0
    assert score_of({"behaviors": {"a": alone, "b": group}}) == 2.25
    assert score_of({"behaviors": {"a": alone}, "opponents": {}, "score": 0.4}) == 0.4


@pytest.mark.parametrize(("text", "seeds"), [("4", (4,)), ("1-3", (1, 2, 3)), ("2,1-2", (2, 1)), ("0", (0,))])
def test_seeds_are_numbers_and_ranges(text: str, seeds: tuple[int, ...]) -> None:
    assert SeedList().convert(text, None, None) == seeds


@pytest.mark.parametrize("text", ["", "3-1", "-1", "a", "1-5000", "1,,2"])
def test_other_seeds_are_refused_before_anything_is_trained(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zoo", "check", "ppo/CartPole-v1", f"--seeds={text}"]) == 2
    assert "is not a list of seeds; write 4, 1,3 or 1-5" in capsys.readouterr().err


def test_a_check_with_json_prints_nothing_but_its_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = entry_of("ppo/CartPole-v1")
    good = next(iter(entry.measurements.values()))
    bad = attrs.evolve(good, score=entry.interval[0] - 1)

    def train(entry: Entry, seed: int, results_dir: Path) -> Measurement:
        print("a line of the training")
        return good if seed == 8 else bad

    monkeypatch.setattr("rlcore_zoo.trainings.train", train)
    assert main(["zoo", "check", entry.name, "--seeds", "8,9", "--json"]) == 1
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    assert [check["inside"] for check in answer["checks"]] == [True, False]
    assert answer["interval"] == list(entry.interval)
    assert answer["checks"][1]["measurement"]["score"] == bad.score and "a line of the training" in printed.err
