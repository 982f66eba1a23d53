"""Router steps in their order: all that happens between a caller and a tool beside finding and calling it."""

from __future__ import annotations

from toolfold.tools.policy import Policy
from toolfold.tools.router import Wrapper, checked, from_record, withholding
from toolfold.tools.steps.approval import approval, budget
from toolfold.tools.steps.cache import Cache, remembering
from toolfold.tools.steps.concurrency import Concurrency
from toolfold.tools.steps.resilience import Breaker, BreakerStep, Retry, RetryStep, StepClock, SystemClock


def wrappers(
    *,
    policy: Policy | None = None,
    cache: Cache | None = None,
    breaker: Breaker | None = None,
    retry: Retry | None = None,
    concurrency: Concurrency | None = None,
    clock: StepClock | None = None,
    error_details: bool = True,
) -> tuple[Wrapper, ...]:
    """The steps for one `Router`, outermost first.

    `None` is the default of each: memory, breaker and retry are on, everything is allowed, nothing queues. Without
    `error_details` a program reads only the type of a tool's error.
    """
    policy = policy or Policy()
    clock = clock or SystemClock()
    return (
        *(() if error_details else (withholding,)),
        policy.gate,
        checked,  # after the gate: who may not call learns nothing of the arguments
        approval(policy),
        budget(policy),
        from_record,
        remembering(cache or Cache(), clock),
        BreakerStep(breaker or Breaker(), clock).wrap,
        RetryStep(retry or Retry(), clock).wrap,
        # Inside the retry, so that a slot is free while a failed call waits; the router's timeout
        # comes after, so that waiting for a slot is not the tool's time.
        (concurrency or Concurrency()).wrap,
    )
