"""A Ray cluster of three nodes on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

CPUS: Final = 2

# A node that is gone is noticed within seconds, as in a cluster that is tuned for it; Ray's own figure is 30.
_PROMPT: Final = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    # Ray asks home otherwise.
    "RAY_USAGE_STATS_ENABLED": "0",
}


# Any: Ray's own types are loose.
@contextmanager
def three_nodes(count: int = 3) -> Iterator[Any]:
    """Their `Cluster`; `RAY_ADDRESS` leads to it meanwhile."""
    os.environ.update(_PROMPT)
    # Here, not at the top: Ray reads the variables when it is imported.
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": CPUS, "include_dashboard": False})
    try:
        for _ in range(count - 1):
            cluster.add_node(num_cpus=CPUS)
        os.environ["RAY_ADDRESS"] = cluster.address
        yield cluster
    finally:
        os.environ.pop("RAY_ADDRESS", None)
        cluster.shutdown()
