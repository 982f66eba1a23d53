"""Images, sounds, links and files as a program meets them."""


class Media:
    """An image, a sound, a link or a file that a tool gave; hand it back or read its `data`."""

    __slots__ = ("data", "kind", "mime", "name", "uri")
    __module__ = "__main__"

    def __init__(self, kind: str, mime: str, data: bytes = b"", uri: str = "", name: str = "") -> None:
        self.kind, self.mime, self.data, self.uri, self.name = kind, mime, data, uri, name

    def __repr__(self) -> str:
        return f"<{self.kind} {self.mime} {len(self.data)} bytes{' ' + self.name if self.name else ''}>"
