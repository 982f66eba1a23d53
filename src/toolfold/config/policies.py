"""What `policies` in a `toolfold.yaml` may say of the calls of some tools, as types."""

from __future__ import annotations

from typing import Literal

from toolfold.config.section import Section
from toolfold.config.units import Count, Seconds


class PolicyConfig(Section):
    """How calls of some tools go."""

    timeout_seconds: Seconds | None = None
    """The maximum duration of one call."""
    retry: Literal["never", "safe", "always"] | None = None
    """When to retry; `safe`, the default, retries only if a second call can do no harm."""
    cache_seconds: Seconds | None = None
    """How long a reply is reused for the same arguments."""
    max_calls: Count | None = None
    """How often one program may call one tool."""
    max_in_flight: Count | None = None
    """How many calls of one tool run at a time; others wait."""
