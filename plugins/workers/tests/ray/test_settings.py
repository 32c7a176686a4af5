"""Nothing but an explicit flag opens Ray to other machines."""

from __future__ import annotations

import pytest

from rlcore import SettingError
from rlcore_workers.ray.settings import RaySettings

pytestmark = pytest.mark.smoke


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "10.0.0.7", "203.0.113.9", "host.example", "127.0.0.2"])
def test_an_address_that_others_reach_needs_the_flag(bind: str) -> None:
    with pytest.raises(SettingError, match="allow_public_bind: true") as refused:
        RaySettings(count=2, bind=bind)
    assert refused.value.field == "bind"
    assert RaySettings(count=2, bind=bind, allow_public_bind=True).bind == bind


def test_the_flag_alone_opens_nothing() -> None:
    assert RaySettings(count=2, allow_public_bind=True).bind == "127.0.0.1"


def test_bind_is_refused_with_the_address_of_a_cluster() -> None:
    with pytest.raises(SettingError, match="leave it out with address"):
        RaySettings(count=2, bind="10.0.0.7", allow_public_bind=True, address="10.0.0.7:6379")


@pytest.mark.parametrize("address", ["auto", "10.0.0.7:6379", "head.example:6379", "[::1]:6379"])
def test_addresses_of_clusters(address: str) -> None:
    assert RaySettings(count=2, address=address).address == address


@pytest.mark.parametrize("address", ["", "local", "10.0.0.7", "ray://10.0.0.7:10001", "http://h:1", "h:1;x", "h:1 "])
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(SettingError, match="HOST:PORT"):
        RaySettings(count=2, address=address)
