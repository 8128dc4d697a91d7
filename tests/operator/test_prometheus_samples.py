"""From series to counters, where the contract tests on a real Prometheus do not reach."""

from kvtune_api.sources import Preset
from kvtune_api.wire import Counters
from kvtune_operator.adapters.presets import TABLES
from kvtune_operator.adapters.prometheus_samples import Shape, found
from kvtune_tuner.draft import sample
from kvtune_tuner.sli import Missing, WindowCounts, increase

TABLE = TABLES[Preset.VLLM_V1]


def _series(name: str, *values: float) -> dict[str, object]:
    labels = {"__name__": name, "pod": "vllm-0"}
    return {"metric": labels, "values": [[60.0 * index, str(value)] for index, value in enumerate(values)]}


def _samples(*series: dict[str, object]) -> list[Counters | Missing]:
    pods = found(series, Shape(pod_label="pod", summed=TABLE.summed), TABLE)
    return [taken.counters for taken in pods["vllm-0"].by_replica[""]]


def test_without_a_start_that_is_known_a_counter_that_falls_has_begun_anew() -> None:
    before, after = _samples(_series("vllm:prompt_tokens_total", 5000, 700))
    assert isinstance(before, Counters)
    assert before.started_at is None
    first, last = sample(before), sample(after)
    assert not isinstance(first, Missing)
    assert not isinstance(last, Missing)
    window = increase(first, last)
    assert isinstance(window, WindowCounts)
    assert (window.prompt_tokens, window.reset) == (700, True)
