"""The environment variables of torchrun: sound ones, none, and those that are not what torchrun sets."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from rlcore import ConfigError, Launch, Ranks, launched
from rlcore.cli.main import named

JOB = "0b4a7a3e-7d0e-4a0c-9f57-5a2f0a8f7a11"
NEEDED = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "29500"}
SOUND = {**NEEDED, "TORCHELASTIC_RUN_ID": JOB}


def test_a_rank_is_what_its_variables_say() -> None:
    assert launched(SOUND) == Launch(3, 4, 1, job=JOB)
    assert launched(SOUND | {"TORCHELASTIC_RESTART_COUNT": "2"}) == Launch(3, 4, 1, 2, JOB)


def test_an_id_that_is_used_again_is_another_job_in_another_torchrun() -> None:
    """torchrun's default id is ``none``. Only a random one says which call of torchrun a process belongs to."""
    show = "from rlcore.contracts.ranks import launched; print(launched().job)"

    def of_another(name: str) -> str:
        starter = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {show!r}], check=True)"
        environ = {**os.environ, **NEEDED, "TORCHELASTIC_RUN_ID": name}
        done = subprocess.run([sys.executable, "-c", starter], env=environ, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    for name in ("none", "walker", ""):
        one = launched(SOUND | {"TORCHELASTIC_RUN_ID": name})
        again = launched(SOUND)
        other = of_another(name)
        assert one is not None and again is not None
        assert one == launched(SOUND | {"TORCHELASTIC_RUN_ID": name})
        assert len({one.job, again.job, other}) == 3
    assert of_another(JOB) == JOB


def test_a_process_without_all_of_the_variables_is_no_rank() -> None:
    for name in NEEDED:
        assert launched({key: value for key, value in SOUND.items() if key != name}) is None


WRONG = [
    *(("RANK", value) for value in ("evil", "", "\u00b2", "4", "-1")),
    *(("WORLD_SIZE", value) for value in ("-1", "0", "9" * 5000)),
    ("LOCAL_RANK", "4"),
    ("LOCAL_RANK", "-1"),
    ("TORCHELASTIC_RESTART_COUNT", "x"),
    ("TORCHELASTIC_RESTART_COUNT", "-1"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_variables_that_torchrun_does_not_set_so_are_refused(name: str, value: str) -> None:
    expected = f"^the environment variables .*{re.escape(f'{name}={value[:40]!r}')}.*; use torchrun$"
    with pytest.raises(ConfigError, match=expected):
        launched(SOUND | {name: value})


def test_an_error_has_its_rank_if_there_are_several(monkeypatch: pytest.MonkeyPatch) -> None:
    assert named("text") == "text"
    for key, value in SOUND.items():
        monkeypatch.setenv(key, value)
    assert named("text") == "rank 3: text"
    monkeypatch.setenv("RANK", "evil")
    assert named("text") == "text", "an error is printed, although it is of no rank"


@pytest.mark.parametrize(("num_envs", "size"), [(1, 1), (4, 2), (7, 3), (3, 3), (16, 5)])
def test_ranks_have_blocks_of_environments_that_cover_the_run(num_envs: int, size: int) -> None:
    ranks = [Ranks() for _ in range(size)]
    for rank, each in enumerate(ranks):
        each.rank, each.size = rank, size
    shares = [each.own_environments(num_envs) for each in ranks]
    assert [env for first, count in shares for env in range(first, first + count)] == list(range(num_envs))
    counts = [count for _, count in shares]
    assert max(counts) - min(counts) <= 1
