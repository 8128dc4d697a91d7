"""All features of a request, and what policies are told of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtune_cache.classes import CLASSES, KINDS, class_of
from kvtune_cache.features.prefix import SIGNATURES, signature
from kvtune_cache.features.request import FeatureReader, Features, hour_phase, request_class, signal
from kvtune_cache.signals import KIND, SIGNALS, SIGNATURE, SWITCHED, TURN


def test_a_signature_is_that_of_the_first_ten_tokens() -> None:
    document = list(range(100, 120))
    assert signature(document) == signature(document[:10]) != signature([*document[:9], 7])
    assert signature(document[:3]) != signature(document[:4])
    assert signature([]) == 0
    assert signature([1, 2, 3]) == 964123163, "the same in every process"


@given(st.lists(st.integers(0, 2**63), min_size=1))
def test_law_a_signature_is_never_the_number_for_none(tokens: list[int]) -> None:
    assert 1 <= signature(tokens) <= SIGNATURES


def test_kind_and_turn_bucket_make_the_class() -> None:
    assert [class_of(0, turn) for turn in (1, 2, 3, 4, 5, 6, 50)] == [0, 1, 2, 3, 3, 4, 4]
    assert class_of(KINDS - 1, 6) == CLASSES - 1


def test_the_hour_phase_is_the_share_of_the_hour() -> None:
    assert [hour_phase(s) for s in (0.0, 900.0, 3600.0, 9000.0)] == [0.0, 0.25, 0.0, 0.5]


def test_features_follow_a_session_and_tell_the_policy() -> None:
    reader = FeatureReader(hour_offset_s=1800.0)
    request = [0.0] * SIGNALS
    for now in (0.0, 5.0, 10.0):
        features = reader.read(now, session=3, kind=2, document=[1, 2, 3])
    assert features.hour_phase == pytest.approx(0.5 + 10 / 3600)
    assert request_class(features) == class_of(2, 3)
    signal(features, request)
    told = (request[KIND], request[TURN], request[SWITCHED], request[SIGNATURE])
    assert told == (2, 3, 1, signature([1, 2, 3]))


def test_what_is_not_known_is_not_told() -> None:
    features = FeatureReader().read(0.0)
    request = [9.0] * SIGNALS
    signal(features, request)
    assert (request[KIND], request[TURN], request[SWITCHED], request[SIGNATURE]) == (0, 0, 0, 0)
    assert features.rhythm is None and features.hour_phase is None
    assert request_class(features) == 0


def test_a_kind_that_policies_do_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="kind: 6 is not from 0 to 5"):
        Features(kind=6, rhythm=None, signature=0, hour_phase=None)
