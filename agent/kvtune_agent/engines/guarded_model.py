"""A model whose eviction policy gives way to LRU wherever it raises: no request fails, every block stays.

Called by replay.py, which enters the model through here alone, to serve, let time pass or change settings.
A request is checked before the policy is told of it, so that what a policy raises is never taken for a bad
request.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from kvtune_agent.engines.batches import ReplayRequest
from kvtune_agent.engines.guarded import GuardedPolicy
from kvtune_api.wire import Fallback
from kvtune_cache.guard import GuardRules
from kvtune_cache.serving import BadRequest, Served, ServingModel
from kvtune_cache.tiers import CacheSettings


class GuardedModel:
    """Run the settings asked for, or the same with LRU while the guard has fallen back."""

    def __init__(
        self,
        make: Callable[[CacheSettings], ServingModel],
        settings: CacheSettings,
        rules: GuardRules,
        now: float,
    ) -> None:
        """Start empty; the policy is judged by what comes from `now` on (engine seconds)."""
        self.model = make(settings)
        self._make = make
        self._asked = settings
        self._policy = GuardedPolicy(settings.policy, rules, now, self.model.reuse.snapshot())

    @property
    def fallback(self) -> Fallback | None:
        """Why LRU runs in place of the policy asked for."""
        return self._policy.fallback

    @property
    def falls(self) -> Counter[str]:
        """How often it fell back, by reason."""
        return self._policy.falls

    def begin_anew(self, now: float) -> None:
        """Empty the cache and the counters; what was learned and a fallback stay."""
        lessons = self.model.lessons()
        self.model = self._make(self._wanted)
        if lessons is not None:
            self.model.teach(lessons)
        self.watch_from(now)

    def watch_from(self, now: float) -> None:
        """Judge the policy by what comes from now on."""
        self._policy.watch_from(now, self.model.reuse.snapshot())

    def serve(self, request: ReplayRequest) -> Served:
        """Serve one request, by LRU if the policy fails at it. Raises `BadRequest` for a bad one."""
        try:
            return _served(self.model, request)
        except BadRequest:
            raise
        except Exception as error:
            if not self._falls_back(error):
                raise
        return _served(self.model, request)

    def advance(self, now: float) -> None:
        """Let time pass without a request; an earlier time changes nothing."""
        try:
            self.model.advance(now)
        except Exception as error:
            if not self._falls_back(error):
                raise

    def apply(self, settings: CacheSettings) -> None:
        """Run other settings, with LRU where the policy fails at them or has failed before.

        What LRU itself raises is passed on; then nothing else was asked for.
        """
        before, self._asked = self._asked, settings
        self._policy.ask(settings.policy, self.model.now_s, self.model.reuse.snapshot())
        try:
            self._put_in_force()
        except Exception:
            self._asked = before
            raise

    def judge_by(self, rules: GuardRules) -> None:
        """Judge the policy by other rules from now on."""
        self._policy.judge_by(rules, self.model.now_s)

    def restore(self) -> bool:
        """Run the policy asked for again; False where it runs already, or fails at once."""
        if not self._policy.restore(self.model.now_s):
            return False
        self._put_in_force()
        return self._policy.fallback is None

    def observe(self, now: float) -> None:
        """Judge the policy by the reuse since the last look."""
        if self._policy.observe(now, self.model.reuse.snapshot()):
            self._put_in_force()

    @property
    def _wanted(self) -> CacheSettings:
        """The settings to run."""
        return replace(self._asked, policy=self._policy.policy)

    def _put_in_force(self) -> None:
        try:
            self.model.reconfigure(self._wanted, self.model.now_s)
        except Exception as error:
            if not self._falls_back(error):
                raise

    def _falls_back(self, error: Exception) -> bool:
        """Run LRU from now on, because the policy has raised; False where LRU runs already."""
        if not self._policy.failed(self.model.now_s, error):
            return False
        self.model.reconfigure(self._wanted, self.model.now_s)
        return True


def _served(model: ServingModel, request: ReplayRequest) -> Served:
    arrival, root, prompt, output, blocks, hint = request
    back, kind = (hint.returns_in_seconds, hint.request_kind) if hint is not None else (0.0, 0)
    return model.serve(arrival, blocks, prompt, root, kind=kind, output_tokens=output, hint=back)
