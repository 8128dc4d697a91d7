"""What tiers cost and how fast they load, as a person writes it: `host=2.0/GiB-month`, `disk=3GB/s`.

Called by `kvtune capacity`. The defaults are round numbers to begin with and claim nothing: whoever plans
gives their own. Money is in whatever currency the prices are in.

Errors: PriceError (a ValueError) names what was written and what was expected.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from types import MappingProxyType

from kvtune_lab.sizes import SizeError, parse_bytes

GIB = 1024**3


class PriceError(ValueError):
    """Tell the user what is wrong with a price, a speed or a budget."""


class Tier(StrEnum):
    """Where a block may be, the fastest first."""

    DEVICE = "device"
    HOST = "host"
    DISK = "disk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What tiers cost and what a hit in each is worth."""

    per_gib_month: Mapping[Tier, float]
    """Of the tiers below the device, which is there anyway."""

    bytes_per_second: Mapping[Tier, float]
    """Of the same tiers: how fast blocks are loaded to the device."""

    prefill_tokens_per_second: float

    def monthly(self, sizes: Mapping[Tier, float]) -> float:
        """Cost of tiers below the device of so many bytes."""
        return sum(self.per_gib_month[tier] * size / GIB for tier, size in sizes.items())

    def worth(self, tier: Tier, *, bytes_per_token: float) -> float:
        """Share of a token's prefill time that a hit in this tier saves, loading subtracted; not below 0."""
        if tier is Tier.DEVICE:
            return 1.0
        load_s = bytes_per_token / self.bytes_per_second[tier]
        return max(0.0, 1 - load_s * self.prefill_tokens_per_second)


DEFAULT_PRICES: Mapping[Tier, float] = MappingProxyType({Tier.HOST: 2.0, Tier.DISK: 0.1})
DEFAULT_SPEEDS: Mapping[Tier, float] = MappingProxyType({Tier.HOST: 25e9, Tier.DISK: 3e9})
DEFAULT_PREFILL = 8_000.0


@dataclass(frozen=True, slots=True)
class Money:
    """So much a month."""

    monthly: float


@dataclass(frozen=True, slots=True)
class Room:
    """So many bytes below the device."""

    size_bytes: int


Budget = Money | Room

NO_LIMIT = Money(inf)
"""Nobody has said what may be spent."""

_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+|nan|inf)(?:e[+-]?[0-9]+)?"
_PRICE = re.compile(rf"({_NUMBER})(?:/GiB-month)?", re.IGNORECASE)
_MONEY = re.compile(rf"({_NUMBER})(?:/month)?", re.IGNORECASE)


def parse_prices(texts: Iterable[str]) -> dict[Tier, float]:
    """Read `host=2.0/GiB-month` or the disk's over the defaults; raises PriceError."""
    return {
        **DEFAULT_PRICES,
        **{tier: _price(tier, value) for tier, value in _by_tier(texts, "2.0/GiB-month")},
    }


def parse_speeds(texts: Iterable[str]) -> dict[Tier, float]:
    """Read `host=25GB/s` or the disk's over the defaults; raises PriceError."""
    return {**DEFAULT_SPEEDS, **{tier: _speed(tier, value) for tier, value in _by_tier(texts, "25GB/s")}}


def parse_budget(text: str) -> Budget:
    """Read `500` or `500/month` as money, `2TiB` as room below the device; raises PriceError."""
    written = text.strip()
    match = _MONEY.fullmatch(written)
    if match is not None:
        monthly = float(match[1])
        if not 0 < monthly < inf:
            raise PriceError(f"{written!r} is not an amount greater than 0")
        return Money(monthly)
    try:
        return Room(parse_bytes(written))
    except SizeError as error:
        raise PriceError(f"{written!r} is neither money (500/month) nor a number of bytes (2TiB)") from error


def _by_tier(texts: Iterable[str], example: str) -> list[tuple[Tier, str]]:
    found = []
    for text in texts:
        for part in text.split(","):
            name, equals, value = (word.strip() for word in part.partition("="))
            if not equals or name not in (Tier.HOST, Tier.DISK):
                raise PriceError(f"{part.strip()!r} is neither host={example} nor disk={example}")
            found.append((Tier(name), value))
    return found


def _price(tier: Tier, value: str) -> float:
    match = _PRICE.fullmatch(value)
    if match is None or not 0 <= float(match[1]) < inf:
        raise PriceError(f"{tier}: {value!r} is not a price >= 0 such as 2.0/GiB-month")
    return float(match[1])


def _speed(tier: Tier, value: str) -> float:
    try:
        return float(parse_bytes(value.removesuffix("/s")))
    except SizeError as error:
        raise PriceError(f"{tier}: {value!r} is not a speed such as 25GB/s") from error
