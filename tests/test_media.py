from toolfold.models import MIB, File, Media
from toolfold.outcome_views import describe_media, images_in, value_as_json

PICTURE = Media(kind="image", mime="image/png", data=b"png")


def test_a_value_is_described_with_a_word_for_what_is_no_text() -> None:
    value = {
        "drawn": [PICTURE, b"1234"],
        "page": Media(kind="link", mime="", uri="https://example.org/a"),
        "n": 1.5,
    }

    assert describe_media(value) == {
        "drawn": ["<image image/png>", "<4 bytes>"],
        "page": "<link https://example.org/a>",
        "n": 1.5,
    }


def test_pictures_are_found_wherever_they_are() -> None:
    sound = Media(kind="audio", mime="audio/wav", data=b"wav")
    files = (File(name="a.gif", data=b"gif", mime="image/gif"), File(name="b.csv", data=b"1", mime="text/csv"))

    assert images_in({"a": [PICTURE, sound], "b": 1}, files) == [("image/png", b"png"), ("image/gif", b"gif")]


def test_pictures_without_data_or_of_great_size_take_no_place_of_others() -> None:
    empty = Media(kind="image", mime="image/png", uri="https://example.org/a.png")
    huge = Media(kind="image", mime="image/png", data=bytes(5 * MIB + 1))

    assert images_in([empty, huge, *[PICTURE] * 12]) == [("image/png", b"png")] * 10


def test_a_whole_value_is_json_with_bytes_in_base64_and_null_for_what_json_has_not() -> None:
    picture = Media(kind="image", mime="image/png", data=b"png", name="a.png")

    shown = value_as_json({"raw": b"\x00\x01", "picture": picture, "numbers": [1, 2.5, float("nan"), float("-inf")]})

    assert shown == {
        "raw": {"base64": "AAE="},
        "picture": {"kind": "image", "mime": "image/png", "uri": "", "name": "a.png", "data": {"base64": "cG5n"}},
        "numbers": [1, 2.5, None, None],
    }
