"""The operator's settings, read live: the last valid ones stay; what is wrong is told once with its field."""

import pytest

from kvtune_api.errors import SpecError, Unavailable
from kvtune_api.operator_config import OperatorConfig
from kvtune_operator.config_text import operator_config
from kvtune_operator.live_config import ConfigText, LiveConfig

WHERE = "ConfigMap kvtune-operator"


class Store:
    """Holds a text with a version."""

    def __init__(self, text: str | None = None) -> None:
        self.text = text
        self.version = 1
        self.absent = text is None
        self.broken: str | None = None
        self.warnings: list[str] = []

    def put(self, text: str) -> None:
        self.text, self.absent = text, False
        self.version += 1

    async def read(self) -> ConfigText | None:
        if self.broken:
            raise Unavailable(self.broken)
        if self.absent:
            return None
        return ConfigText(uid="u", version=str(self.version), text=self.text)

    async def warn(self, found: ConfigText, message: str) -> None:
        self.warnings.append(message)


async def settings(store: Store) -> LiveConfig:
    found = LiveConfig(store, where=WHERE)
    await found.refresh()
    return found


async def test_without_a_config_map_defaults_are_used() -> None:
    found = await settings(Store())

    assert (found.config.max_experiments, found.trouble) == (10, "")


async def test_a_config_map_without_the_key_means_defaults() -> None:
    store = Store("")
    store.text = None

    assert (await settings(store)).trouble == ""


async def test_a_change_is_taken_at_the_next_reading() -> None:
    store = Store("maxExperiments: 3")
    found = await settings(store)
    assert found.config.max_experiments == 3

    store.put("maxExperiments: 4\nstop: true")
    await found.refresh()

    assert (found.config.max_experiments, found.config.stop) == (4, True)


async def test_what_is_invalid_leaves_the_last_valid_settings_and_one_event_with_the_field() -> None:
    store = Store("maxExperiments: 3")
    found = await settings(store)
    store.put("maxExperiments: -3")
    await found.refresh()
    await found.refresh()

    assert (found.config.max_experiments, found.trouble) == (3, "")
    (warning,) = store.warnings
    assert "line 1: maxExperiments: -3" in warning
    assert "the last valid ones stay in force" in warning


async def test_a_bug_in_reading_is_told_as_invalid_settings_and_the_next_ones_are_read() -> None:
    def read(text: str) -> OperatorConfig:
        if "boom" in text:
            raise AttributeError("no groupdict")
        return operator_config(text)

    store, shown = Store("maxExperiments: 3"), list[bool]()
    found = LiveConfig(store, where=WHERE, show=shown.append, read=read)
    await found.refresh()
    store.put("boom")
    await found.refresh()

    assert (found.config.max_experiments, shown) == (3, [True, False])
    assert "cannot be read (AttributeError: no groupdict)" in store.warnings[0]

    store.put("stop: true")
    await found.refresh()

    assert (found.config.stop, shown) == (True, [True, False, True])


async def test_what_is_invalid_from_the_start_is_trouble_until_it_is_mended() -> None:
    store = Store("maxExperiment: 3")
    found = await settings(store)
    assert "maxExperiment: unknown field" in found.trouble
    assert "no experiment starts" in store.warnings[0]

    store.put("maxExperiments: 3")
    await found.refresh()

    assert found.trouble == ""


async def test_an_api_server_that_is_away_keeps_what_is_known() -> None:
    store = Store("maxExperiments: 3")
    found = await settings(store)
    store.broken = "no answer"
    await found.refresh()

    assert (found.config.max_experiments, found.trouble) == (3, "")


async def test_settings_that_could_not_be_read_yet_are_trouble() -> None:
    store = Store("maxExperiments: 3")
    store.broken = "no answer"

    assert (await settings(store)).trouble == f"{WHERE} cannot be read: no answer"


def test_times_of_day_and_moments_need_no_quotes() -> None:
    config = operator_config(
        """
        freezeWindows:
          - {name: night, days: [Mon, Tue], start: 22:00, duration: 8h, timeZone: Europe/Berlin}
          - {name: launch, since: 2026-12-24T18:00:00+01:00, until: 2027-01-02T00:00:00Z}
        """
    )

    night, launch = config.freeze_windows
    assert (night.start, launch.until) == ("22:00", "2027-01-02T00:00:00Z")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a list", "must be an object"),
        ("stop: [", "cannot be read as YAML"),
        ("stop: true\nstop: false", "line 2: stop (first on line 1) stands twice"),
        ("freezeWindows:\n  - days: [Mon]\n    timeZone: Mars/Base", "line 3: freezeWindows[0].timeZone"),
        ("maxExposedShare: 1.5", "maxExposedShare"),
        ("prometheus: {address: 'ftp://x'}", "prometheus.address"),
        ("freezeWindows: [{name: x}]", "either days, or since and until"),
        ("stop: !!timestamp 'x'", "cannot be read as YAML"),
        (
            "freezeWindows: [{since: 2026-01-01T00:00:00Z, until: '9999-12-31T23:59:59-12:00'}]",
            "line 1: freezeWindows[0].until",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_field(text: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        operator_config(text)

    assert said in str(caught.value)
