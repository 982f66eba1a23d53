"""What a provider counts over a whole conversation; sizes are tokens here, and plain numbers to this module."""

from collections.abc import Iterable


class Conversation:
    """What a provider counts while a model works: each request reads again all that was before it.

    Args:
        opening: Size of the instructions and tool definitions, which every request carries.
    """

    def __init__(self, opening: int) -> None:
        self.requests = 0
        self.read = 0
        """Input of all requests."""
        self.cached = 0
        """The part of `read` that the request before had already, as a prompt cache sees it."""
        self.written = 0
        """Output of all requests."""
        self.context = opening
        self._known = 0

    def say(self, size: int) -> None:
        """A user's message; it is read with the next request."""
        self.context += size

    def ask(self, calls: Iterable[tuple[int, int]]) -> None:
        """One request for calls, and the replies to them: the size of each call and of its reply."""
        calls = list(calls)
        self._request(sum(call for call, _ in calls))
        self.context += sum(reply for _, reply in calls)

    def answer(self, size: int) -> None:
        """The request that ends a turn: the model writes to the user."""
        self._request(size)

    def _request(self, written: int) -> None:
        self.requests += 1
        self.read += self.context
        self.cached += self._known
        self.written += written
        self._known = self.context
        self.context += written
