"""Durations and quantities: what is accepted, what it is worth, and how it is written back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_api.codec import dump, frozen, parse
from kvtune_api.errors import SpecError
from kvtune_api.units import Duration, PositiveDuration, PositiveQuantity, Quantity


@frozen
class _Holder:
    """One of each."""

    rest: Duration | None = None
    length: PositiveDuration | None = None
    size: Quantity | None = None
    room: PositiveQuantity | None = None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("320ms", 0.32), ("90s", 90), ("5m", 300), ("1h30m", 5400), ("1.5s", 1.5), ("0s", 0), ("24h", 86400)],
)
def test_a_duration_is_worth_its_seconds(text: str, seconds: float) -> None:
    assert parse(_Holder, {"rest": text}).rest == text
    assert Duration(text).seconds == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("8Gi", 8 * 2**30),
        ("512Mi", 2**29),
        ("1e9", 1e9),
        ("1.5Ki", 1536),
        ("500m", 0.5),
        ("2G", 2e9),
        ("7", 7),
    ],
)
def test_a_quantity_is_worth_its_bytes(text: str, size_bytes: float) -> None:
    assert parse(_Holder, {"size": text}).size == text
    assert Quantity(text).bytes == pytest.approx(size_bytes)


@pytest.mark.parametrize("text", ["", "90", "-5s", "5 m", "1d", "s", "1e3s", "5M", "nan", "٣s"])
def test_what_is_not_a_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SpecError, match=r"length: .*is not a .*such as '90s'"):
        parse(_Holder, {"length": text})


@pytest.mark.parametrize("text", ["", "8gb", "-1Gi", "Gi", "1 Gi", "0x10", "inf", "1Gi5"])
def test_what_is_not_a_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SpecError, match=r"room: .*is not a .*such as '8Gi'"):
        parse(_Holder, {"room": text})


@pytest.mark.parametrize("value", [90, 1.5, True, ["90s"], {"seconds": 90}])
def test_a_bare_number_is_no_duration_for_it_has_no_unit(value: object) -> None:
    with pytest.raises(SpecError, match="is not a duration such as"):
        parse(_Holder, {"length": value})


def test_zero_is_a_duration_only_where_it_may_be() -> None:
    assert parse(_Holder, {"rest": "0s"}).rest == "0s"
    with pytest.raises(SpecError, match="length: '0s' must be greater than 0s"):
        parse(_Holder, {"length": "0s"})
    with pytest.raises(SpecError, match="room: '0Gi' must be greater than 0"):
        parse(_Holder, {"room": "0Gi"})


def test_a_text_that_is_too_long_is_refused_with_both_lengths() -> None:
    with pytest.raises(SpecError, match="has 21 characters, at most 20"):
        parse(_Holder, {"length": "1" * 20 + "s"})


@given(st.integers(min_value=0, max_value=10**9))
def test_a_duration_written_from_milliseconds_reads_back(milliseconds: int) -> None:
    assert round(Duration.of(milliseconds / 1000).seconds * 1000) == milliseconds


@given(st.integers(min_value=0, max_value=2**50))
def test_a_quantity_written_from_bytes_reads_back(size_bytes: int) -> None:
    written = Quantity.of(size_bytes)

    assert written.bytes == size_bytes
    assert parse(_Holder, {"size": written}).size == written


def test_they_stay_strings_on_the_wire() -> None:
    assert dump(parse(_Holder, {"length": "1h30m", "size": "57Gi"})) == {"length": "1h30m", "size": "57Gi"}


def test_negative_values_are_never_written() -> None:
    with pytest.raises(ValueError, match="less than 0"):
        Duration.of(-1)
    with pytest.raises(ValueError, match="less than 0"):
        Quantity.of(-1)


@pytest.mark.parametrize(
    ("field", "text", "limit"),
    [("rest", "1000000001s", "1000000000s"), ("size", "1e99", "1Ei"), ("room", "2Ei", "1Ei")],
)
def test_what_is_larger_than_anything_real_is_refused_with_the_limit(
    field: str, text: str, limit: str
) -> None:
    with pytest.raises(SpecError, match=f"{field}: '{text}' is more than the largest .* allowed, {limit}"):
        parse(_Holder, {field: text})


def test_an_exponent_that_no_size_has_never_reaches_arithmetic() -> None:
    with pytest.raises(SpecError, match="is not a quantity"):
        parse(_Holder, {"size": "1e9999999"})
