"""Whose settings hold, field by field; what is refused; when an adapter is opened anew."""

from typing import Any

import pytest

from kvtune_api.codec import parse
from kvtune_api.errors import SpecError
from kvtune_api.policy import KVCachePolicy
from kvtune_api.sources import PrometheusSource, PyroscopeSource
from kvtune_operator.adapters.source_adapters import SourceAdapters, instance
from kvtune_operator.clock import WallClock
from kvtune_operator.sources import ADDRESS_LABEL, Place, SourcesOf, resolved, resolved_profiles
from kvtune_operator.standalone_house import StandaloneHouse
from tests.fakes.clock import FakeClock
from tests.fakes.pool import FakeMetrics, Pool
from tests.fakes.samples import cache_config, policy
from tests.fakes.sim import PoolSettings

HERE, THERE = "http://prometheus.here:9090", "http://prometheus.there:9090"


def prometheus(**source: Any) -> PrometheusSource:
    return parse(PrometheusSource, source)


def pyroscope(**source: Any) -> PyroscopeSource:
    return parse(PyroscopeSource, source)


def test_what_nobody_sets_has_the_documented_default() -> None:
    found = resolved(prometheus(), prometheus())

    assert (found.preset, found.pod_label, found.namespace_label) == ("Agent", "pod", "namespace")
    assert (found.scrape_interval, found.scrape_delay, found.timeout) == ("15s", "5s", "10s")
    assert found.address is None
    assert resolved(prometheus(), prometheus(), pod_label=ADDRESS_LABEL).pod_label == "instance"


def test_the_policy_comes_first_field_by_field_and_query_by_query() -> None:
    operator = prometheus(
        address=THERE,
        scrapeInterval="30s",
        podLabel="pod_name",
        matchers={"cluster": "eu-1"},
        queries={"errors": "a", "requests": "b"},
    )
    found = resolved(prometheus(scrapeInterval="1s", scrapeDelay="0s", queries={"errors": "c"}), operator)

    assert (found.address, found.scrape_interval, found.scrape_delay) == (THERE, "1s", "0s")
    assert (found.pod_label, found.matchers) == ("pod_name", {"cluster": "eu-1"})
    assert (found.queries.errors, found.queries.requests) == ("c", "b")


def test_the_operators_secret_is_never_sent_to_an_address_of_a_policy() -> None:
    operator = prometheus(address=THERE, secret={"name": "keys"})

    assert resolved(prometheus(address=HERE), operator).secret is None
    found = resolved(prometheus(), operator).secret
    assert found is not None and found.name == "keys"
    profiles = pyroscope(address=THERE, secret={"name": "keys"})
    assert resolved_profiles(pyroscope(address=HERE), profiles).secret is None


def test_frames_have_defaults_that_a_policy_replaces() -> None:
    found = resolved_profiles(pyroscope(evictFrames=["drop"]), pyroscope())

    assert found.evict_frames == ("drop",)
    assert "start_load_kv" in (found.load_frames or ())
    assert found.profile_type == "process_cpu:cpu:nanoseconds:cpu:nanoseconds"


class Opener:
    """Counts what is opened, and where."""

    def __init__(self) -> None:
        self.opened = list[tuple[PrometheusSource, Place]]()
        pool = Pool(PoolSettings(agents=2), config=cache_config())
        self.scrape = FakeMetrics(pool, FakeClock())
        adapters = SourceAdapters(label_of=instance, now=WallClock().now, monotonic=WallClock().monotonic)

        def open_prometheus(source: PrometheusSource, place: Place) -> Any:
            self.opened.append((source, place))
            return adapters.prometheus(source, place)

        self.sources = SourcesOf(scrape=self.scrape, prometheus=open_prometheus, pyroscope=adapters.pyroscope)


def asking(**metrics: Any) -> KVCachePolicy:
    return policy(metrics=metrics)


def test_without_an_address_agents_are_asked_themselves() -> None:
    opener = Opener()

    found = opener.sources.sources(asking())

    assert found.metrics is opener.scrape
    assert found.profiles is None


def test_scrape_stays_scrape_whatever_the_operator_has() -> None:
    opener = Opener()

    found = opener.sources.sources(asking(source="Scrape"), prometheus(address=THERE))

    assert found.metrics is opener.scrape


def test_an_adapter_is_kept_until_its_settings_change() -> None:
    opener = Opener()
    operator = prometheus(address=THERE)

    first = opener.sources.sources(asking(), operator)
    again = opener.sources.sources(asking(), operator)
    other = opener.sources.sources(asking(prometheus={"address": HERE}), operator)

    assert first.metrics is again.metrics
    assert other.metrics is not first.metrics
    assert [source.address for source, _ in opener.opened] == [THERE, HERE]


def test_a_prometheus_that_nobody_names_is_refused_with_the_field() -> None:
    with pytest.raises(SpecError, match=r"spec\.metrics\.prometheus\.address: is needed"):
        Opener().sources.sources(asking(source="Prometheus"))


def test_a_stall_target_needs_a_pyroscope() -> None:
    with pytest.raises(
        SpecError, match=r"spec\.metrics\.pyroscope\.address: is needed for spec\.targets\.stall"
    ):
        Opener().sources.sources(policy(targets={"hitRate": {"min": 0.5}, "stall": {"max": 0.05}}))


def test_a_secret_outside_a_cluster_is_refused_with_the_field() -> None:
    asked = asking(prometheus={"address": HERE, "secret": {"name": "keys"}})

    with pytest.raises(
        SpecError, match=r"spec\.metrics\.prometheus\.secret\.name: 'keys': Secrets can be read"
    ):
        Opener().sources.sources(asked)


@pytest.mark.parametrize("source", ["prometheus", "pyroscope"])
def test_a_scaled_clock_has_no_prometheus_and_no_pyroscope(source: str) -> None:
    asked = asking(**{source: {"address": HERE}})
    house = StandaloneHouse(Opener().sources, speed=60.0)

    with pytest.raises(SpecError, match=rf"spec\.metrics\.{source}\.address: .* clock of speed 60"):
        house.sources(asked)
    assert StandaloneHouse(Opener().sources, speed=1.0).sources(asked)


@pytest.mark.parametrize(
    ("agent", "label"),
    [
        ("http://127.0.0.1:9000", "127.0.0.1:9000"),
        ("http://agent", "agent:80"),
        ("https://agent/", "agent:443"),
        ("http://[::1]:9000", "[::1]:9000"),
    ],
)
def test_an_address_is_known_to_prometheus_by_host_and_port(agent: str, label: str) -> None:
    assert instance(agent) == label
