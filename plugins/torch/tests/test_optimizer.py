"""Both implementations of Adam against torch.optim.Adam, and against each other across a checkpoint."""

# mypy: allow-untyped-calls
from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
import torch
from torch import Tensor, nn

from rlcore import ConfigError, Ranks, RunStateError
from rlcore_devkit.conformance.states import assert_equal
from rlcore_torch import TorchAdam, TorchSettings, backend, choose_backend
from rlcore_torch.acceleration import flat_adam
from rlcore_torch.acceleration.captured import WARM_UP, CapturedStep
from rlcore_torch.acceleration.flat_adam import FlatAdam
from rlcore_torch.optimization.optimizer import Adam

KINDS: list[type[FlatAdam] | type[TorchAdam]] = [TorchAdam, FlatAdam]
BOTH = pytest.mark.parametrize("kind", KINDS)


def model(width: int = 5) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 2))


def loss(of: nn.Module, step: int) -> torch.Tensor:
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
    return of(x).square().sum()  # type: ignore[no-any-return]


def alike(owned: nn.Module, plain: nn.Module, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    for mine, other in zip(owned.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=rtol, atol=atol)


def judged(kind: Any) -> tuple[nn.Sequential, nn.Sequential, torch.optim.Adam, Any]:
    """A model for PyTorch's own optimizer, one for ``kind``, and both optimizers."""
    plain = model()
    owned = model()
    return plain, owned, torch.optim.Adam(plain.parameters(), lr=0.01, eps=1e-5), kind(owned.parameters(), 0.01, 1e-5)


def steps(optimizer: Adam, of: nn.Module, first: int) -> None:
    for step in range(first, first + 5):
        optimizer.zero_grad()
        loss(of, step).backward()
        optimizer.step()


@BOTH
@pytest.mark.parametrize("max_norm", [0.5, 1e6])
def test_updates_are_those_of_torch_adam_with_gradient_clipping(kind: type[FlatAdam], max_norm: float) -> None:
    plain, owned, theirs, ours = judged(kind)
    kind(owned.parameters(), 1.0, 1e-5)  # which takes no parameter away from the other one
    for step in range(20):
        if step == 10:
            ours.learning_rate = theirs.param_groups[0]["lr"] = 0.003
        theirs.zero_grad()
        loss(plain, step).backward()
        norm = nn.utils.clip_grad_norm_(plain.parameters(), max_norm)
        theirs.step()
        ours.zero_grad()
        loss(owned, step).backward()
        torch.testing.assert_close(ours.clip_grad_norm(max_norm), norm)
        clipped = torch.cat([p.grad.reshape(-1) for p in owned.parameters() if p.grad is not None])
        assert clipped.norm() <= max_norm * (1 + 1e-6)
        ours.step()
    alike(owned, plain)


@BOTH
def test_other_betas_are_those_of_torch_adam_and_a_checkpoint_of_others_is_refused(kind: Any) -> None:
    plain = model()
    owned = model()
    theirs = torch.optim.Adam(plain.parameters(), lr=0.01, betas=(0.5, 0.9), eps=1e-5)
    ours = kind(owned.parameters(), 0.01, 1e-5, (0.5, 0.9))
    of_old = kind(model().parameters(), 0.01, 1e-5)
    for first in (0, 5):
        steps(ours, owned, first)
        for step in range(first, first + 5):
            theirs.zero_grad()
            loss(plain, step).backward()
            theirs.step()
        alike(owned, plain)
        state = ours.state_dict()
        ours = ours.another(0.01)  # with the same betas
        ours.load_state_dict(state)
    assert "betas" not in of_old.state_dict(), "checkpoints with the usual betas stay as they are"
    for loading, saved in ((of_old, state), (ours, of_old.state_dict())):
        before = loading.state_dict()
        with pytest.raises(
            RunStateError, match=r"has betas \(0\.\d+, 0\.\d+\) and this run's \(0\..*resume with those"
        ):
            loading.load_state_dict(saved)
        assert_equal(loading.state_dict(), before)


@pytest.mark.parametrize(("first", "second"), list(itertools.product(KINDS, KINDS)))
def test_a_saved_optimizer_continues_in_either_implementation(first: type[FlatAdam], second: type[FlatAdam]) -> None:
    whole = model()
    restored = model()
    ours = first(whole.parameters(), 0.01, 1e-5)
    steps(ours, whole, 0)
    other = second(restored.parameters(), 0.01, 1e-5)
    restored.load_state_dict(whole.state_dict())
    other.load_state_dict(ours.state_dict())
    assert_equal(other.state_dict(), ours.state_dict())
    steps(ours, whole, 5)
    steps(other, restored, 5)
    alike(restored, whole, **({"rtol": 0, "atol": 0} if first is second else {"atol": 1e-7}))


@BOTH
@pytest.mark.parametrize("saved", [None, TorchAdam, FlatAdam])
def test_parameters_that_lack_gradients_now_and_then_move_as_with_torch_adam(
    kind: type[FlatAdam], saved: type[FlatAdam] | None
) -> None:
    """Layers with gradients are drawn; the state goes through ``saved`` in the middle."""
    plain, owned, theirs, ours = judged(kind)
    draws = torch.rand(12, 4, generator=torch.Generator().manual_seed(3)) < 0.6
    draws[0], draws[1], draws[2] = False, True, torch.tensor([True, True, False, False])
    for step, drawn in enumerate(draws.tolist()):
        if step == 6 and saved is not None:
            other = saved(owned.parameters(), 0.01, 1e-5)
            other.load_state_dict(ours.state_dict())
            ours = other
        before = [p.detach().clone() for p in owned.parameters()]
        for net, optimizer in ((plain, theirs), (owned, ours)):
            optimizer.zero_grad()
            loss(net, step).backward()
            for p, there in zip(net.parameters(), drawn, strict=True):
                if not there:
                    p.grad = None
            norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5) if net is plain else ours.clip_grad_norm(0.5)
            assert norm > 0.5 or not any(drawn)
            optimizer.step()
        assert [not p.equal(old) for p, old in zip(owned.parameters(), before, strict=True)] == drawn
        alike(owned, plain)


def denormal(optimizer: Adam) -> int:
    moments = torch.cat([optimizer.moments()[name] for name in ("mean", "square")])
    return int(((moments != 0) & (moments.abs() < torch.finfo(torch.float32).tiny)).sum())


def test_moments_of_dead_units_become_zero_where_rounding_would_keep_them_denormal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Weights are those of an optimizer that keeps such moments, also across a checkpoint."""

    def trained(saved: bool) -> tuple[nn.Module, FlatAdam]:
        torch.manual_seed(0)
        of = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
        optimizer = FlatAdam(of.parameters(), 0.001, 1e-8)
        for step in range(1_250):
            if step == 100:
                of[0].bias.data[:4] -= 100.0  # no input activates these units from now on
            if step == 1_150 and saved:
                of = copy.deepcopy(of)
                state = optimizer.state_dict()
                optimizer = FlatAdam(of.parameters(), 0.001, 1e-8)
                optimizer.load_state_dict(state)
            optimizer.zero_grad()
            loss(of, step).backward()
            optimizer.step()
        return of, optimizer

    model, optimizer = trained(saved=False)
    resumed_model, resumed = trained(saved=True)
    monkeypatch.setattr(flat_adam, "VANISHED_EVERY", 10_000)
    keeping_model, keeping = trained(saved=False)
    alike(model, keeping_model, rtol=0, atol=0)
    alike(model, resumed_model, rtol=0, atol=0)
    assert_equal(optimizer.state_dict(), resumed.state_dict())
    assert denormal(optimizer) == 0
    assert denormal(keeping) >= 4 * 3  # the first weights of four units


@BOTH
def test_moments_of_another_model_are_refused_and_nothing_changes(kind: type[FlatAdam]) -> None:
    ours = kind(model().parameters(), 0.01, 1e-5)
    before = ours.state_dict()
    with pytest.raises(RunStateError, match="network_settings"):
        ours.load_state_dict(kind(model(6).parameters(), 0.01, 1e-5).state_dict())
    assert_equal(before, ours.state_dict())


# ---------------------------------------------------------------- recorded gradient steps

Replay = Callable[[], None]


@attrs.frozen(eq=False)
class Batch:
    x: Tensor
    inputs: tuple[Tensor, ...] = ()
    mask: Tensor | None = None
    share: float = 1.0


class Accumulator:
    """A step with state: the sum of what it was given, in a tensor that stays where it is."""

    def __init__(self) -> None:
        self.sum = torch.zeros(())
        self.executed = 0  # by Python, as opposed to replays
        self.recorded = 0

    def step(self, batch: Batch, factor: Tensor) -> tuple[dict[str, Tensor], Tensor | None]:
        self.executed += 1
        self.sum += batch.share * factor * (batch.x.sum() + sum(part.sum() for part in batch.inputs))
        return {"sum": self.sum * 1.0, "first": batch.x[0] * 1.0}, batch.mask

    def record(self, step: Callable[[], Sequence[Tensor]]) -> tuple[Replay, Sequence[Tensor]]:
        """As a CUDA graph: nothing happens while it is recorded, and a replay fills the same tensors."""
        self.recorded += 1
        before = self.sum.clone()
        executed = self.executed
        made = [tensor.clone() for tensor in step()]
        self.sum.copy_(before)
        self.executed = executed

        def replay() -> None:
            for mine, tensor in zip(made, step(), strict=True):
                mine.copy_(tensor)
            self.executed = executed

        return replay, made


def a_step() -> tuple[Accumulator, CapturedStep[Any]]:
    own = Accumulator()
    return own, CapturedStep(own.step, torch.device("cpu"), own.record)


def test_each_call_is_one_step_and_results_are_the_callers_own() -> None:
    own, step = a_step()
    plain = Accumulator()
    results = []
    for number in range(8):
        given = Batch(torch.full((3,), float(number)), (torch.ones(2) * number,)), torch.tensor(0.5 + number)
        expected, _ = plain.step(*given)
        found, mask = step(*given)
        assert mask is None and found.keys() == expected.keys()
        assert found["sum"] == expected["sum"] == own.sum and found["first"] == number
        results.append(found)
    assert own.executed == WARM_UP and own.recorded == 1
    assert [float(each["first"]) for each in results] == list(range(8)), "a later call changed an earlier result"


def test_other_shapes_and_other_numbers_are_recorded_separately() -> None:
    own, step = a_step()
    plain = Accumulator()
    kinds = [
        Batch(torch.ones(3)),
        Batch(torch.ones(4)),
        Batch(torch.ones(3), share=0.5),
        Batch(torch.ones(3), mask=torch.ones(2)),
        Batch(torch.ones(3), (torch.ones(1),)),
        Batch(torch.ones(3, dtype=torch.float64)),
    ]
    for _ in range(WARM_UP + 2):
        for batch in kinds:
            _, expected = plain.step(batch, torch.tensor(2.0))
            found, mask = step(batch, torch.tensor(2.0))
            assert found["sum"] == plain.sum
            assert (mask is None) == (expected is None)
    assert own.recorded == len(kinds)


def test_what_cannot_be_recorded_is_an_ordinary_call() -> None:
    own = Accumulator()
    step = CapturedStep(lambda x, _: own.step(Batch(x), torch.tensor(1.0)), torch.device("cpu"), own.record)
    for number in range(10):
        step(torch.ones(1), object())
        assert own.sum == number + 1


def test_a_step_that_reads_a_value_is_refused_with_the_key() -> None:
    def record(step: Callable[[], Sequence[Tensor]]) -> tuple[Replay, Sequence[Tensor]]:
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    step = CapturedStep(lambda x: x * 1.0, torch.device("cpu"), record)
    for _ in range(WARM_UP):
        step(torch.ones(1))
    with pytest.raises(ConfigError, match=r"cannot be recorded: operation not permitted.*item") as caught:
        step(torch.ones(1))
    assert caught.value.key == ("torch_settings", "cuda_graphs") and "\n" not in str(caught.value)


def run_with(**chosen: Any) -> Any:
    """A run with these ``torch_settings``."""
    return SimpleNamespace(config=SimpleNamespace(sections={"torch_settings": TorchSettings(**chosen)}), ranks=Ranks())


def test_graphs_and_tf32_without_a_gpu_are_refused() -> None:
    with pytest.raises(ConfigError, match="CUDA graphs need an NVIDIA GPU, and the device is cpu"):
        choose_backend(run_with(device="cpu", cuda_graphs=True))
    with pytest.raises(ConfigError, match="TF32 needs an NVIDIA GPU, and the device is cpu") as caught:
        choose_backend(run_with(device="cpu", tf32=True))
    assert caught.value.key == ("torch_settings", "tf32")


def test_tf32_is_that_of_the_run_and_not_of_an_earlier_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "chosen_device", lambda run: torch.device("cuda"))
    before = torch.get_float32_matmul_precision()
    try:
        for tf32, precision in ((True, "high"), (False, "highest"), (True, "high")):
            choose_backend(run_with(tf32=tf32))
            assert torch.get_float32_matmul_precision() == precision
    finally:
        torch.set_float32_matmul_precision(before)
