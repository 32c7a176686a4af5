"""The part of a run that each rank has, of slots and the state of a checkpoint, and what ranks refuse."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
import pytest
import torch

from rlcore import (
    BehaviorEvaluation,
    ConfigError,
    EvaluationResult,
    FinishedEpisodes,
    RanksFailed,
    StopRequests,
    TrainerWrapper,
)
from rlcore.contracts.ranks import latest_episode, number_of_ranks
from rlcore.run.prepare import prepare
from rlcore_torch.off_policy.joined_replay import JoinedReplay
from rlcore_torch.off_policy.replay_rings import sample_rows
from rlcore_torch.ranks.checkpoint import gather_state, scatter_state
from rlcore_torch.ranks.episodes import EpisodeRanks, refuse_wrappers
from rlcore_torch.ranks.evaluation import _evaluation
from rlcore_torch.ranks.refusals import refuse_in_ranks
from rlcore_torch.ranks.torch_ranks import gather_rows


@attrs.define
class Table:
    """Values that threads exchange, one place for each."""

    barrier: threading.Barrier
    places: list[Any]


class ThreadRanks(EpisodeRanks):
    """Ranks in threads of one process."""

    def __init__(self, table: Table, rank: int, size: int) -> None:
        super().__init__(rank, size, StopRequests())
        self.table = table

    def all_gather(self, value: Any) -> list[Any]:
        self.table.places[self.rank] = deepcopy(value)
        self.table.barrier.wait(60)
        gathered = [deepcopy(each) for each in self.table.places]
        self.table.barrier.wait(60)
        return gathered

    def gather(self, value: Any) -> list[Any] | None:
        gathered = self.all_gather(value)
        return gathered if self.rank == 0 else None

    def share(self, value: Any) -> Any:
        return self.all_gather(value if self.rank == 0 else None)[0]

    def scatter(self, values: Sequence[Any] | None) -> Any:
        return self.all_gather(None if values is None else list(values))[0][self.rank]


def in_ranks(function: Any, size: int) -> list[Any]:
    """The results, or the errors, of ``function(ranks)`` in each of ``size`` ranks."""
    table = Table(threading.Barrier(size), [None] * size)
    results: list[Any] = [None] * size

    def run(rank: int) -> None:
        try:
            results[rank] = function(ThreadRanks(table, rank, size))
        except Exception as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return results


# ---------------------------------------------------------------- shares


@pytest.mark.parametrize("by_agent", [False, True])
def test_slots_are_numbered_as_in_one_process(by_agent: bool) -> None:
    def slots(envs: int) -> np.ndarray[Any, Any]:  # two agents in each environment
        return np.tile(np.arange(envs), 2) if by_agent else np.repeat(np.arange(envs), 2)

    one = slots(5)
    firsts = (0, 3)
    counts = (3, 2)
    shares = in_ranks(lambda ranks: ranks.share_slots(slots(counts[ranks.rank]), firsts[ranks.rank]), 2)
    agent = np.array([np.count_nonzero(one[:slot] == one[slot]) for slot in range(10)])
    for rank, share in enumerate(shares):
        own = slots(counts[rank])
        np.testing.assert_array_equal(share.env_index, one)
        np.testing.assert_array_equal(one[share.numbers], own + firsts[rank])
        own_agent = [np.count_nonzero(own[:slot] == own[slot]) for slot in range(len(own))]
        np.testing.assert_array_equal(agent[share.numbers], own_agent)


def test_ranks_divide_the_minibatch_that_one_process_draws() -> None:
    """Slots are numbered agent by agent: those of a rank are not side by side."""
    # rows with a transition
    envs = (3, 1)
    whole = np.random.default_rng(0).random((6, 8)) < 0.6
    whole[5, 3:] = False

    def draw(ranks: Any) -> Any:
        count = envs[ranks.rank]
        share = ranks.share_slots(np.tile(np.arange(count), 2), 3 * ranks.rank)
        own = whole[:, share.numbers].reshape(-1)
        buffer: Any = SimpleNamespace(capacity=own.size, slots=2 * count, flags=own, filled=np.flatnonzero(own)[-1] + 1)
        joined = JoinedReplay(buffer, share, ranks)
        joined.exchange({})
        chosen, part = joined.sample(50, np.random.default_rng(1))
        in_run = np.arange(whole.size).reshape(whole.shape)[:, share.numbers].reshape(-1)
        assert part.share == len(chosen) / 50
        return part.places, in_run[chosen]

    parts = in_ranks(draw, 2)
    places, found = (np.concatenate(each) for each in zip(*parts, strict=True))
    drawn = sample_rows(whole, int(np.flatnonzero(whole)[-1]) + 1, int(whole.sum()), 50, np.random.default_rng(1))
    assert sorted(places) == list(range(50)) and found.tolist() == drawn[places].tolist()


def test_rows_of_all_ranks_follow_each_other() -> None:
    for rows in in_ranks(lambda ranks: gather_rows(ranks, torch.full((1 + ranks.rank, 1), ranks.rank)), 2):
        assert rows.tolist() == [[0], [1], [1]]


# ---------------------------------------------------------------- states of all ranks


def state_of(rank: int) -> dict[str, Any]:
    own: dict[str, Any] = {"row": 3, "reward": np.full((2, 2), rank, np.float32), "cuts": []}
    if rank == 1:
        own["masks"] = np.ones((2, 2), np.bool_)
        own["cuts"] = [np.array([1, 2])]
    if rank == 2:
        del own["row"]
    return {
        "Agent": {"model": {"w": np.arange(3.0)}, "buffer": own, "generator": {"state": 2**100}},
        "run": {"steps": {"Agent": 12}, "episodes": np.array([rank, 5 - rank]), "names": ["a", "b"]},
    }


def test_ranks_exchange_the_numbers_that_environments_report_of_ended_episodes() -> None:
    noted: list[FinishedEpisodes] = []
    ranks = EpisodeRanks(0, 2, StopRequests())
    ranks._behaviors = {"B": SimpleNamespace(episodes=SimpleNamespace(finished=1), episodes_finished=noted.append)}
    numbers = np.arange(4)
    parts = []
    for slots, info in (([0], {"good": np.ones(1)}), ([2, 3], {"far": np.array([5.0, 6.0])})):
        each = EpisodeRanks(0, 2, StopRequests())
        each._of_ranks = {"B": SimpleNamespace(spec=SimpleNamespace(numbers=numbers))}  # type: ignore[dict-item]
        each._ended = {"B": []}
        ended = np.array(slots)
        finished = FinishedEpisodes(ended, np.zeros(len(ended)), np.ones(len(ended), np.int64), None, info)
        each.episodes_finished(SimpleNamespace(name="B"), finished)
        parts.append(each._ended["B"])
    ranks._note_finished("B", parts)
    (all_of_step,) = noted
    np.testing.assert_array_equal(all_of_step.info["good"], [1, np.nan, np.nan])
    np.testing.assert_array_equal(all_of_step.info["far"], [np.nan, 5, 6])
    result = EvaluationResult({"B": BehaviorEvaluation(1.0, 0.0, 1, 2.0, (1.0,), info={"good": (1.0, 0.0)})})
    assert _evaluation(attrs.asdict(result)) == result


def test_every_rank_gets_the_state_that_it_saved() -> None:
    saved = in_ranks(lambda ranks: gather_state(state_of(ranks.rank), ranks), 3)[0]
    assert (number_of_ranks(saved), latest_episode(saved)) == (3, 5)
    parts = saved["run"]["ranks"]["parts"]
    assert sorted(parts) == ["1", "2"]
    assert not any("model" in path for part in parts.values() for path in part["paths"])
    restored = in_ranks(lambda ranks: scatter_state(saved if ranks.rank == 0 else None, ranks), 3)
    for rank, state in enumerate(restored):
        np.testing.assert_equal(state, state_of(rank))


def test_a_new_run_has_no_state_in_any_rank() -> None:
    assert in_ranks(lambda ranks: scatter_state(None, ranks), 2) == [None, None]


def test_ranks_with_other_weights_end() -> None:
    def gather(ranks: Any) -> Any:
        state = state_of(0)
        state["Agent"]["model"]["w"][0] += 1e-12 * ranks.rank
        return gather_state(state, ranks)

    for error in in_ranks(gather, 2):
        assert isinstance(error, RanksFailed)
        assert "rank 1 differ from those of rank 0" in str(error)


# ---------------------------------------------------------------- refusals


class Silent(TrainerWrapper):
    """Says nothing about ranks."""


class Declaring(TrainerWrapper):
    learns_in_ranks = True


class Inner:
    """Stands for a trainer, whose record was checked before."""


@pytest.mark.parametrize("wrap", [Silent, lambda inner: Declaring(Silent(inner))], ids=["outside", "inside"])
def test_a_trainer_around_another_one_must_declare_ranks(wrap: Any) -> None:
    expected = "a plugin put a Silent around the trainer, which does not declare that it learns in several ranks"
    with pytest.raises(ConfigError, match=expected) as refused:
        refuse_wrappers(wrap(Inner()), "Player")
    assert refused.value.key == ("behaviors", "Player")
    refuse_wrappers(Declaring(Declaring(Inner())), "Player")  # type: ignore[arg-type]
    refuse_wrappers(Inner(), "Player")


BLOCK = """
import attrs
from rlcore import BehaviorSection, hookimpl

@attrs.frozen
class Settings:
    pass

@hookimpl
def rlcore_config_sections():
    return [BehaviorSection(name="cheering", target="cheerers:Settings", summary="cheers", ranks={declared})]
"""
SAMPLER = """
from rlcore import hookimpl
from rlcore_torch import ReplaySamplerSpec

@hookimpl
def rlcore_replay_buffer_samplers():
    settings = "rlcore_torch:ReplaySamplerSettings"
    return [ReplaySamplerSpec(name="own", target="samplers:Own", settings=settings, summary="own", ranks=True)]
"""
CONFIG = {
    "plugins": {"local": ["cheerers.py"]},
    "preset": "none",
    "environment": {"type": "gymnasium", "id": "CartPole-v1", "num_envs": 4},
    "behaviors": {"CartPole": {"trainer_type": "ppo", "max_steps": 10, "cheering": {}}},
}


@pytest.mark.parametrize(
    ("declared", "size", "changed", "key", "said"),
    [
        (True, 4, {}, None, ""),
        (False, 2, {}, ("behaviors", "CartPole", "cheering"), "does not declare that it learns in several ranks"),
        (True, 5, {}, ("environment", "num_envs"), "is 4, and torchrun started 5 ranks"),
        (True, 2, {"checkpoint_settings": {"inference": True}}, (), "--inference acts in one process"),
    ],
)
def test_a_run_that_ranks_do_not_support_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    declared: bool,
    size: int,
    changed: dict[str, Any],
    key: tuple[str, ...] | None,
    said: str,
) -> None:
    pytest.importorskip("rlcore_ppo")
    pytest.importorskip("rlcore_gymnasium")
    (tmp_path / "cheerers.py").write_text(BLOCK.format(declared=declared))
    monkeypatch.chdir(tmp_path)
    run = prepare({**CONFIG, **changed}, None)
    if key is None:
        refuse_in_ranks(run.config, run.plugins, size)
        return
    with pytest.raises(ConfigError, match=said) as refused:
        refuse_in_ranks(run.config, run.plugins, size)
    assert refused.value.key == key


@pytest.mark.parametrize("sampler", ["own", "prioritized", "uniform"])
def test_ranks_refuse_a_replay_sampler_that_they_would_not_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampler: str
) -> None:
    pytest.importorskip("rlcore_sac")
    pytest.importorskip("rlcore_gymnasium")
    (tmp_path / "samplers.py").write_text(SAMPLER)
    monkeypatch.chdir(tmp_path)
    behavior = {"trainer_type": "sac", "max_steps": 10, "hyperparameters": {"replay_sampler": {"type": sampler}}}
    run = prepare(
        {
            "plugins": {"local": ["samplers.py"]},
            "preset": "none",
            "environment": {"type": "gymnasium", "id": "Pendulum-v1", "num_envs": 4},
            "behaviors": {"Pendulum": behavior},
        },
        None,
    )
    if sampler == "uniform":
        refuse_in_ranks(run.config, run.plugins, 2)
        return
    said = {"own": "declares .* ranks sample uniformly .* leave replay_sampler out", "prioritized": "does not declare"}
    with pytest.raises(ConfigError, match=said[sampler]) as refused:
        refuse_in_ranks(run.config, run.plugins, 2)
    assert refused.value.key == ("behaviors", "Pendulum", "hyperparameters", "replay_sampler", "type")
