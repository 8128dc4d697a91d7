"""How rarely skipped batches are logged."""

from kvtune_lab.posting import Seldom


def test_skips_are_logged_once_and_then_again_after_the_seconds() -> None:
    seldom = Seldom(10.0)

    assert [now for now in (100.0, 100.1, 109.9, 110.0, 115.0, 130.0) if seldom.is_due(now)] == [
        100.0,
        110.0,
        130.0,
    ]
