"""Drawn actions: 20,000 draws have the mean, the spread and the frequencies that the policy's distribution has."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from rlcore_onnx.actions import choices, finite_logits
from rlcore_onnx.graph import Graph
from rlcore_onnx.profiles import PROFILES
from rlcore_torch import DeterministicTanh
from rlcore_torch.networks.distributions import BUILT_IN

DRAWS = 20_000


def drawn(policy: Any, act: Any, mask: Any = None, profile: str = "generic") -> tuple[dict[str, Any], Any, Any]:
    """20,000 draws for one observation, and the columns and masked logits of the policy's module for it."""
    seen = np.full((1, 5), 0.7, np.float32)
    head = policy.model.policy_head
    size = head.noise_size + policy.layout.logits
    epsilon = np.random.default_rng(13).standard_normal((DRAWS, size), np.float32)
    inputs = {"state" if profile == "generic" else "obs_0": np.repeat(seen, DRAWS, axis=0), "epsilon": epsilon}
    if mask is not None:
        rows = np.repeat(mask, DRAWS, axis=0)
        inputs |= {"action_mask": rows} if profile == "generic" else {"action_masks": rows.astype(np.float32)}
    given = None if mask is None else torch.from_numpy(mask)
    with torch.no_grad():
        columns, logits, _ = policy.module().distribution_parameters({"state": torch.from_numpy(seen)}, given)
    return act(**inputs), columns, logits


@pytest.mark.parametrize("profile", ["generic", "unity"])
def test_options_are_drawn_as_often_as_their_probabilities_say(
    make_policy: Any, export: Any, load: Any, profile: str
) -> None:
    policy = make_policy("mlp", "branches")
    mask = np.array([[True, True, True, False, True, False, True, True, True]])
    found, _, logits = drawn(policy, load(export(policy, profile=profile)), mask, profile)
    choices = found["discrete" if profile == "generic" else "discrete_actions"]
    for branch, values in enumerate(logits.split((2, 3, 4), dim=1)):
        probabilities = values.softmax(1)[0].numpy()
        for option, probability in enumerate(probabilities):
            frequency = (choices[:, branch] == option).mean()
            if not mask[0, [0, 2, 5][branch] + option]:
                assert frequency == 0
            assert abs(frequency - probability) < 3 * (probability * (1 - probability) / DRAWS) ** 0.5 + 1e-9


def test_huge_noise_is_finite_and_chooses_no_forbidden_option(make_policy: Any, export: Any, load: Any) -> None:
    policy = make_policy("mlp", "hybrid")
    noise = np.array([[value] * 7 for value in (-1e30, -40.0, -6.0, 6.0, 40.0, 1e30)], np.float32)
    mask = np.tile(np.array([[False, True, False, True, False]]), (6, 1))
    for profile, name in (("generic", "discrete"), ("unity", "discrete_actions")):
        act = load(export(policy, profile=profile))
        seen = {"state" if profile == "generic" else "obs_0": np.zeros((6, 5), np.float32), "epsilon": noise}
        given = {"action_mask": mask} if profile == "generic" else {"action_masks": mask.astype(np.float32)}
        found = act(**seen, **given)
        assert all(np.isfinite(array).all() for array in found.values())
        np.testing.assert_array_equal(found[name], [[1, 0]] * 6)
        if profile == "unity":
            assert np.abs(found["continuous_actions"]).max() == 1


LARGEST = float(np.finfo(np.float32).max)
MASK = np.array([[True, False, True, False, True]])  # branches of 3 and 2 options


@pytest.mark.parametrize(("profile", "converted"), [("generic", False), ("unity", False), ("unity", True)])
def test_only_allowed_options_are_chosen_whatever_the_logits(
    make_policy: Any, export: Any, load: Any, profile: str, converted: bool
) -> None:
    """The inputs are the logits; a hook of the network makes torch.onnx convert the policy's module."""
    policy = make_policy("mlp", "hybrid", num_layers=0, normalize=False)
    with torch.no_grad():
        policy.model.policy_head.linear.weight[2:] = torch.eye(5)
        policy.model.policy_head.linear.bias.zero_()
    policy.refresh()
    if converted:
        module = policy.module()
        module.register_forward_hook(lambda *_: None)
        policy.module = lambda: module
    random = np.random.default_rng(5)
    sizes = np.repeat([1.0, 1e9, 1e30, LARGEST], 50)[:, None]
    ends = random.choice([-1.0, 1.0], (200, 5))
    fuzz = sizes * np.where(random.random((200, 5)) < 0.3, ends, random.uniform(-1.0, 1.0, (200, 5)))
    unusable = [np.full((20, 5), value) for value in (np.nan, np.inf, -np.inf)]
    seen = np.concatenate([fuzz, np.where(MASK, -sizes, sizes), *unusable]).astype(np.float32)
    mask, epsilon = np.repeat(MASK, len(seen), axis=0), random.standard_normal((len(seen), 7), np.float32)
    act = load(export(policy, profile=profile))
    if profile == "generic":
        found = act(state=seen, action_mask=mask, epsilon=epsilon)
        drawn, greedy = found["discrete"], found["deterministic_discrete"]
    else:
        found = act(obs_0=seen, action_masks=mask.astype(np.float32), epsilon=epsilon)
        drawn, greedy = found["discrete_actions"], found["deterministic_discrete_actions"]
    for chosen in (drawn, greedy):
        assert np.take_along_axis(mask, chosen + np.array([0, 3]), axis=1).all()
    np.testing.assert_array_equal(greedy, policy.act({"state": seen}, mask, True).discrete)


@pytest.mark.parametrize("profile", ["generic", "unity"])
def test_of_logits_that_are_not_finite_a_file_chooses_what_a_policy_chooses(make_behavior: Any, profile: str) -> None:
    logits = np.array(list(product((np.nan, LARGEST, -np.inf, 1e9), repeat=4)), np.float32)
    mask = np.random.default_rng(6).random(logits.shape) < 0.5
    mask[np.arange(len(mask)), np.arange(len(mask)) % 4] = True
    kind = PROFILES[profile](make_behavior("discrete"), 0, 0)
    graph = Graph(kind.opset)
    given, name = graph.input("logits", np.float32, (4,)), kind.inputs.action_mask
    graph.input(name, kind.mask_dtype, (4,))
    graph.output("chosen", np.int64, (1,))
    graph.yield_output("chosen", choices(graph, (4,), kind.masked(graph, finite_logits(graph, given))))
    session = onnxruntime.InferenceSession(graph.model("choice", {}, "0").SerializeToString())
    (found,) = session.run(None, {"logits": logits, name: mask.astype(kind.mask_dtype)})
    for row, chosen in enumerate(found[:, 0].tolist()):
        allowed = np.flatnonzero(mask[row]).tolist()
        lost = [k for k in allowed if np.isnan(logits[row, k]) or logits[row, k] == LARGEST]  # the first of these wins
        assert chosen == (lost[0] if lost else max(allowed, key=lambda k: logits[row, k]))


def test_a_deterministic_actor_draws_what_it_does(
    make_policy: Any, export: Any, load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUILT_IN, "gaussian", lambda behavior, **_: DeterministicTanh(behavior))
    policy = make_policy("mlp", "continuous", action_distribution="gaussian")
    found, columns, _ = drawn(policy, load(export(policy)))
    low, high = policy.behavior.low, policy.behavior.high
    expected = low + (np.tanh(columns[0].numpy()) + 1) / 2 * (high - low)
    np.testing.assert_allclose(found["continuous"], np.tile(expected, (len(found["continuous"]), 1)), atol=1e-5)
    np.testing.assert_allclose(found["deterministic_continuous"], found["continuous"], atol=1e-5)
