"""Files of variables, as other clients read them."""

import pytest

from toolfold.config.discovery import read_env_file
from toolfold.errors import UsageError


def test_every_usual_form_of_a_line_is_read(tmp_path) -> None:
    path = tmp_path / ".env"
    path.write_text(
        '# for the server\nTOKEN=abc\nexport REGION = eu # west\n\nTEXT="a\\nb \\"c\\"" # said\n'
        "RAW='a\\n#b'\nEMPTY=\nURL=http://x/#y\nTOKEN=abd\n"
    )

    assert read_env_file(path) == {
        "TOKEN": "abd", "REGION": "eu", "TEXT": 'a\nb "c"', "RAW": "a\\n#b", "EMPTY": "", "URL": "http://x/#y",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "cannot be read: no such file or directory"),
        (b"A=1\nhunter2\n", "line 2 is not NAME=value"),
        (b"A=\xff", "is not UTF-8; save it as UTF-8"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_without_its_text(tmp_path, data, message) -> None:
    path = tmp_path / ".env"
    if data is not None:
        path.write_bytes(data)

    with pytest.raises(UsageError) as error:
        read_env_file(path)

    assert str(error.value) == message
