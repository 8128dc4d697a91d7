"""Prices, speeds and budgets as a person writes them."""

import pytest

from kvtune_lab.capacity.prices import (
    DEFAULT_PRICES,
    DEFAULT_SPEEDS,
    Money,
    PriceError,
    Room,
    Terms,
    Tier,
    parse_budget,
    parse_prices,
    parse_speeds,
)


def test_prices_replace_defaults() -> None:
    assert parse_prices([]) == dict(DEFAULT_PRICES)
    assert parse_prices(["host=3.5/GiB-month"]) == {Tier.HOST: 3.5, Tier.DISK: 0.1}
    assert parse_prices(["host=1,disk=.05/GiB-month"]) == {Tier.HOST: 1.0, Tier.DISK: 0.05}


def test_speeds_replace_defaults() -> None:
    assert parse_speeds(["disk=6GB/s"]) == {**DEFAULT_SPEEDS, Tier.DISK: 6e9}


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("500", Money(500)),
        ("1.5e3/month", Money(1_500)),
        ("2TiB", Room(2 * 1024**4)),
        (" 64GB ", Room(64 * 10**9)),
    ],
)
def test_a_budget_is_money_or_room(text: str, budget: Money | Room) -> None:
    assert parse_budget(text) == budget


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("host=nan", "host: 'nan' is not a price >= 0"),
        ("host=inf", "host: 'inf' is not a price"),
        ("host=-1", "host: '-1' is not a price"),
        ("host=cheap", "host: 'cheap' is not a price"),
        ("host", "'host' is neither host="),
        ("device=1", "'device=1' is neither host="),
        ("tape=1", "'tape=1' is neither host="),
    ],
)
def test_a_price_that_is_none_is_refused(text: str, says: str) -> None:
    with pytest.raises(PriceError, match=says):
        parse_prices([text])


@pytest.mark.parametrize("text", ["host=0GB/s", "host=fast", "host=5", "host=nan"])
def test_a_speed_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(PriceError, match="is not a speed such as 25GB/s"):
        parse_speeds([text])


@pytest.mark.parametrize("text", ["0", "0/month", "-5", "nan", "inf", "0GiB", "10%", "lots", "", "1e999"])
def test_a_budget_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(PriceError, match=r"is not an amount greater than 0|is neither money"):
        parse_budget(text)


def test_a_hit_is_worth_what_loading_leaves_of_its_prefill() -> None:
    speeds = {Tier.HOST: 10e9, Tier.DISK: 1e9}
    terms = Terms(per_gib_month=DEFAULT_PRICES, bytes_per_second=speeds, prefill_tokens_per_second=10_000)
    # 100 kB a token: 10 us from the host, 100 us from the disk, 100 us to compute.
    worth = [terms.worth(tier, bytes_per_token=100_000) for tier in Tier]
    assert worth == pytest.approx([1.0, 0.9, 0.0])
    assert terms.worth(Tier.DISK, bytes_per_token=1_000_000) == 0, "it is computed instead"


def test_costs_add_up_by_gib_and_month() -> None:
    terms = Terms(
        per_gib_month={Tier.HOST: 2.0, Tier.DISK: 0.5},
        bytes_per_second=DEFAULT_SPEEDS,
        prefill_tokens_per_second=1.0,
    )
    assert terms.monthly({Tier.HOST: 3 * 1024**3, Tier.DISK: 1024**3 // 2}) == pytest.approx(6.25)
