"""Where an actor goes: there is one place."""


class NodeAffinitySchedulingStrategy:
    def __init__(self, node_id: str, soft: bool) -> None:
        pass
