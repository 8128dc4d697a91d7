"""Whose settings hold, field by field; what is refused; when an adapter is opened anew."""

from typing import Any

import pytest

from kvtune_api.codec import parse
from kvtune_api.errors import SpecError, Unavailable
from kvtune_api.policy import KVCachePolicy
from kvtune_api.sources import PrometheusSource, PyroscopeSource
from kvtune_operator.adapters.source_adapters import SourceAdapters, instance
from kvtune_operator.clock import WallClock
from kvtune_operator.ports import Unreachable
from kvtune_operator.sources import ADDRESS_LABEL, Place, SourcesOf, resolved, resolved_profiles
from kvtune_operator.standalone_house import StandaloneHouse
from tests.fakes.clock import FakeClock
from tests.fakes.pool import FakeMetrics, Pool
from tests.fakes.samples import cache_config, policy
from tests.fakes.servers import answering
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
    mine = prometheus(address=HERE, scrapeInterval="1s", scrapeDelay="0s", queries={"errors": "c"})
    found = resolved(mine, operator)

    assert (found.address, found.scrape_interval, found.scrape_delay) == (HERE, "1s", "0s")
    assert (found.pod_label, found.matchers) == ("pod_name", {"cluster": "eu-1"})
    assert (found.queries.errors, found.queries.requests) == ("c", "b")


def test_the_operators_secret_is_never_sent_to_an_address_of_a_policy() -> None:
    operator = prometheus(address=THERE, secret={"name": "keys"})

    assert resolved(prometheus(address=HERE), operator).secret is None
    found = resolved(prometheus(), operator).secret
    assert found is not None and found.name == "keys"
    profiles = pyroscope(address=THERE, secret={"name": "keys"})
    assert resolved_profiles(pyroscope(address=HERE), profiles).secret is None


@pytest.mark.parametrize("operator", [prometheus(address=THERE, secret={"name": "keys"}), None])
def test_queries_of_a_policy_are_not_sent_to_an_address_that_is_not_its_own(
    operator: PrometheusSource | None,
) -> None:
    queries = {"requests": 'sum by (pod) (requests{namespace="theirs"})'}

    with pytest.raises(SpecError, match=r"spec\.metrics\.prometheus\.queries: need an address .* name it in"):
        Opener().sources.sources(asking(prometheus={"queries": queries}), operator)
    assert Opener().sources.sources(asking(prometheus={"queries": queries, "address": HERE}), operator)


@pytest.mark.parametrize("source", ["prometheus", "pyroscope"])
def test_which_label_is_the_namespace_is_not_for_a_policy_to_say_at_the_operators_address(
    source: str,
) -> None:
    operators = (prometheus(address=THERE), pyroscope(address=THERE))
    asked = asking(**{source: {"namespaceLabel": "job"}})

    with pytest.raises(
        SpecError, match=rf"spec\.metrics\.{source}\.namespaceLabel: 'job': is not for a policy"
    ):
        Opener().sources.sources(asked, *operators)
    assert Opener().sources.sources(asked)
    assert Opener().sources.sources(
        asking(**{source: {"namespaceLabel": "job", "address": HERE}}), *operators
    )


def test_matchers_of_the_operator_hold_at_its_address_whatever_a_policy_says() -> None:
    operator = prometheus(address=THERE, matchers={"cluster": "eu-1"})
    mine = {"cluster": "us-1", "job": "vllm"}

    assert resolved(prometheus(matchers=mine), operator).matchers == {"cluster": "eu-1", "job": "vllm"}
    assert resolved(prometheus(matchers=mine, address=HERE), operator).matchers == mine
    profiles = pyroscope(address=THERE, matchers={"cluster": "eu-1"})
    assert resolved_profiles(pyroscope(matchers=mine), profiles).matchers["cluster"] == "eu-1"


async def test_what_an_address_of_a_policy_says_is_never_quoted_but_the_operators_is() -> None:
    clock = WallClock()
    for source in ("prometheus", "pyroscope"):
        async with answering(b"swordfish-7", status=503, content_type="text/plain") as address:
            for place, quoted in (
                (Place(policy="chat", namespace="ai", address_of_policy=True), False),
                (Place(policy="chat", namespace="ai", address_of_policy=False), True),
                (Place(policy="chat", address_of_policy=True), True),
            ):
                adapters = SourceAdapters(label_of=instance, now=clock.now, monotonic=clock.monotonic)
                with pytest.raises(Unavailable) as caught:
                    await fetched(adapters, source, address, place)
                await adapters.close()
                assert ("swordfish-7" in str(caught.value)) is quoted
                assert "HTTP 503" in str(caught.value)
                assert quoted or "HTTP 503 (text/plain)" in str(caught.value)


def test_who_chose_the_address_is_told_to_what_opens_it() -> None:
    opener = Opener()
    operator = prometheus(address=THERE)
    opener.sources.sources(asking(), operator)
    opener.sources.sources(asking(prometheus={"address": HERE}), operator)

    assert [place.address_of_policy for _, place in opener.opened] == [False, True]


async def fetched(adapters: SourceAdapters, source: str, address: str, place: Place) -> object:
    if source == "prometheus":
        asked = resolved(prometheus(address=address), prometheus())
        return await adapters.prometheus(asked, place).newest({"http://a": Unreachable(message="")})
    profiled = resolved_profiles(pyroscope(address=address), pyroscope())
    return await adapters.pyroscope(profiled, place).stalls(["http://a"], 0.0, 5.0)


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
