"""What a good agent answers."""

from kvtune_api.codec import canonical
from kvtune_api.wire import Report
from tests.fakes.pool import Pool
from tests.fakes.samples import cache_config
from tests.fakes.sim import PoolSettings

NOW = PoolSettings().start
"""When the reports are of, in seconds."""


def report(name: str = "http://127.0.0.1:9000") -> Report:
    """The report of an agent of a simulated pool."""
    answer = Pool(PoolSettings(), config=cache_config()).report(name, NOW)
    assert isinstance(answer, Report)
    return answer


REPORT = canonical(report()).encode()
RUNNING = canonical(report().running).encode()
