"""Files in and out of sessions, and nobody else's."""

import io
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from tests.interfaces.http.conftest import KEYS, Served, serve
from tests.interfaces.http.talk import LIBRECHAT, go_on, result, start
from toolfold.interfaces.http import Settings
from toolfold.interfaces.http.file_routes import safe_name, unique_name
from toolfold.runtime import RuntimeSettings
from toolfold.sessions import SessionLimits

OTHER = {"X-API-Key": KEYS["two"]}


async def test_a_file_goes_in_is_read_changed_and_comes_out(client: httpx.AsyncClient) -> None:
    uploaded = (
        await client.post("/upload", files={"file": ("data.csv", b"a,b\n1,2\n")}, data={"kind": "user", "id": "x"})
    ).json()
    session, file = uploaded["storage_session_id"], uploaded["files"][0]
    reference = {"id": file["fileId"], "name": "data.csv", "storage_session_id": session, "kind": "user"}
    code = "text = open('/mnt/data/data.csv').read()\nopen('out.txt', 'w').write(text.upper())\nprint(len(text))"

    ran = (await client.post("/exec", json={"code": code, "files": [reference]})).json()
    made = ran["files"][0]
    got = await client.get(f"/download/{made['storage_session_id']}/{made['id']}")

    assert uploaded["message"] == "success"
    assert (ran["stdout"], [one["name"] for one in ran["files"]]) == ("8\n", ["out.txt"])
    assert (got.content, got.headers["content-disposition"]) == (b"A,B\n1,2\n", "attachment; filename*=UTF-8''out.txt")


async def test_a_session_keeps_its_files_between_executions(client: httpx.AsyncClient) -> None:
    first = (await start(client, "open('a.txt', 'w').write('one')\nawait get_weather(city='a')")).json()
    await go_on(client, first["continuation_token"], result("call_001", 1))

    second = (await start(client, "print(open('a.txt').read())", session_id=first["session_id"])).json()
    old = {"id": "x", "name": "a.txt", "session_id": first["session_id"]}
    listed = (await client.get(f"/files/{first['session_id']}?detail=full")).json()
    third = await start(client, "print(open('a.txt').read())", files=[{**old, "id": listed[0]["id"]}])

    assert second["stdout"] == third.json()["stdout"] == "one\n"
    assert listed[0]["metadata"] == {"original-filename": "a.txt"}
    assert listed[0]["name"] == f"{first['session_id']}/{listed[0]['id']}.txt"


async def test_a_file_is_looked_up_and_deleted(client: httpx.AsyncClient) -> None:
    uploaded = (await client.post("/upload", files={"file": ("a.txt", b"one")})).json()
    file_id = uploaded["files"][0]["fileId"]
    path = f"/sessions/{uploaded['session_id']}/objects/{file_id}"

    there = await client.get(path)
    gone = await client.delete(path)
    after = [(await client.get(path, headers=LIBRECHAT)).status_code, (await client.delete(path)).status_code]
    download = await client.get(path.replace("/sessions/", "/download/").replace("/objects", ""), headers=LIBRECHAT)

    assert (there.json()["size"], there.json()["filename"]) == (3, "a.txt")
    assert there.json()["lastModified"].startswith("20")
    assert (gone.json(), after, download.status_code) == ({"message": "success"}, [404, 404], 404)
    assert download.json() == {"error": f"no file '{file_id}' in this session; it may have expired, upload it again"}


async def test_another_tenant_sees_no_session_no_file_and_no_names(client: httpx.AsyncClient) -> None:
    uploaded = (await client.post("/upload", files={"file": ("a.txt", b"secret")}, data={"session_id": "same"})).json()
    file_id = uploaded["files"][0]["fileId"]
    reference = {"id": file_id, "name": "a.txt", "session_id": "same"}

    listed = await client.get("/files/same", headers=OTHER)
    got = await client.get(f"/download/same/{file_id}", headers=OTHER)
    ran = await start(client, "import os\nprint(os.listdir())", session_id="same", headers=OTHER)
    given = await start(client, "print(1)", files=[reference], headers=OTHER)
    deleted = await client.delete(f"/sessions/same/objects/{file_id}", headers=OTHER)

    assert (listed.json(), got.status_code, ran.json()["stdout"]) == ([], 404, "[]\n")
    assert (given.status_code, deleted.status_code) == (404, 404)
    assert (await client.get(f"/download/same/{file_id}")).content == b"secret"


async def test_same_names_from_two_sessions_are_two_files(client: httpx.AsyncClient) -> None:
    references = []
    for text in (b"one", b"two"):
        uploaded = (await client.post("/upload", files={"file": ("a.txt", text)})).json()
        references.append({"id": uploaded["files"][0]["fileId"], "name": "a.txt", "session_id": uploaded["session_id"]})

    ran = (await start(client, "print(open('a.txt').read(), open('a_1.txt').read())", files=references)).json()

    assert ran["stdout"] == "one two\n"


async def test_a_batch_keeps_every_file_under_a_name_of_its_own(client: httpx.AsyncClient) -> None:
    files = [("file", ("../../etc/passwd", b"1")), ("file", ("passwd", b"2")), ("file", ("ünï cödé.txt", b"3"))]

    uploaded = (await client.post("/upload/batch", files=files)).json()
    listed = (await client.get(f"/files/{uploaded['session_id']}")).json()

    assert [file["filename"] for file in uploaded["files"]] == ["passwd", "passwd_1", "ünï cödé.txt"]
    assert (uploaded["succeeded"], uploaded["failed"], len(listed)) == (3, 0, 3)


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../x", "x"),
        ("..", "file"),
        ("", "file"),
        ("a\0b\n.txt", "ab.txt"),
        ("c:\\dir\\x.csv", "x.csv"),
        ("x" * 300 + ".csv", "x" * 180 + ".csv"),
    ],
)
def test_a_name_from_outside_is_a_plain_name(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_a_taken_name_gets_a_number() -> None:
    assert unique_name("a.b.csv", ["a.b.csv", "a.b_1.csv"]) == "a.b_2.csv"


@pytest.mark.long
async def test_a_picture_is_listed_downloaded_and_the_same(client: httpx.AsyncClient) -> None:
    code = (
        "fig, ax = plt.subplots(figsize=(2, 1), dpi=50)\nax.plot([1, 3, 2])\nfig.savefig('plot.png')\n"
        "np.save('drawn.npy', np.asarray(fig.canvas.buffer_rgba()))"
    )

    ran = (await start(client, code, headers=LIBRECHAT, timeout=60000)).json()
    listed = (await client.get(f"/files/{ran['session_id']}")).json()
    got = {
        file["name"]: await client.get(f"/download/{file['storage_session_id']}/{file['id']}") for file in ran["files"]
    }
    drawn = np.load(io.BytesIO(got["drawn.npy"].content))
    picture = Image.open(io.BytesIO(got["plot.png"].content))

    assert sorted((one["filename"], one["size"]) for one in listed) == sorted(
        (name, len(file.content)) for name, file in got.items()
    )
    assert got["plot.png"].headers["content-type"] == "image/png"
    assert (picture.format, picture.size) == ("PNG", (100, 50))
    assert np.array_equal(np.asarray(picture.convert("RGBA")), drawn)
    assert len(np.unique(drawn.reshape(-1, 4), axis=0)) > 2  # there is something in it


@pytest.mark.long
async def test_fifty_megabytes_go_in_and_out(client: httpx.AsyncClient) -> None:
    data = b"0123456789" * 5_000_000
    uploaded = (await client.post("/upload", files={"file": ("big.bin", data)})).json()

    code = "data = open('big.bin', 'rb').read()\nos.remove('big.bin')\nopen('back.bin', 'wb').write(data[::-1])"
    ran = await start(client, f"import os\n{code}", session_id=uploaded["session_id"], timeout=60000)
    [made] = ran.json()["files"]
    got = await client.get(f"/download/{made['session_id']}/{made['id']}")

    assert (ran.json()["status"], made["name"]) == ("completed", "back.bin")
    assert got.content == data[::-1]


async def test_a_form_without_a_file_and_a_reference_to_none_are_told(client: httpx.AsyncClient) -> None:
    empty = await client.post("/upload", files={"kind": (None, b"user")})
    wrong = await client.post("/upload", files={"file": ("a", b"1")}, data={"session_id": "a/b"})
    missing = await start(client, "print(1)", files=[{"id": "nope", "session_id": "s"}], headers=LIBRECHAT)

    assert empty.json()["error"] == "the form has no file; send one in the field 'file'"
    assert (wrong.status_code, missing.status_code) == (400, 200)
    assert missing.json()["error"] == "no file 'nope' in this session; it may have expired, upload it again"


async def test_what_a_program_removed_is_named_and_gone(client: httpx.AsyncClient) -> None:
    files = [("file", ("a.txt", b"1")), ("file", ("b.txt", b"2"))]
    session = (await client.post("/upload/batch", files=files)).json()["session_id"]
    code = "import os\nawait get_weather(city='a')\nos.remove('a.txt')\nopen('c.txt', 'w').write('3')"
    first = (await start(client, code, session_id=session)).json()

    body = (await go_on(client, first["continuation_token"], result("call_001", 1))).json()
    plain = (await client.post("/exec", json={"code": "os.remove('b.txt')", "session_id": session})).json()
    after = (await start(client, "print(sorted(os.listdir()))", session_id=session)).json()

    assert (body["deleted_files"], [file["name"] for file in body["files"]]) == (["a.txt"], ["c.txt"])
    assert plain["deleted_files"] == ["b.txt"]
    assert (after["stdout"], "deleted_files" in after) == ("['c.txt']\n", False)


async def test_a_removed_file_of_another_session_is_named_and_stays_there(client: httpx.AsyncClient) -> None:
    uploaded = (await client.post("/upload", files={"file": ("a.txt", b"1")})).json()
    (file,), session = uploaded["files"], uploaded["session_id"]
    reference = {"id": file["fileId"], "name": "a.txt", "storage_session_id": session}

    body = (await start(client, "import os\nos.remove('a.txt')", files=[reference])).json()

    assert body["deleted_files"] == ["a.txt"]
    assert (await client.get(f"/download/{session}/{file['fileId']}")).content == b"1"


async def test_a_session_that_could_not_be_kept_has_lost_nothing(tmp_path: Path) -> None:
    limits = SessionLimits(max_bytes=10)
    async with serve(Settings(keys=KEYS), tmp_path, settings=RuntimeSettings(session_limits=limits)) as client:
        session = (await client.post("/upload", files={"file": ("a.txt", b"1")})).json()["session_id"]
        code = "import os\nos.remove('a.txt')\nopen('b.txt', 'w').write('2' * 11)"

        body = (await start(client, code, session_id=session)).json()
        listed = (await client.get(f"/files/{session}")).json()

    assert ("deleted_files" in body, [one["filename"] for one in listed]) == (False, ["a.txt"])


async def test_all_sessions_of_a_tenant_share_a_quota_and_leave_the_others_theirs(served: Served) -> None:
    async with served(
        options={"settings": RuntimeSettings(session_limits=SessionLimits(max_tenant_bytes=1000))}
    ) as client:

        async def upload(size: int, tenant: str = "one") -> httpx.Response:
            headers = {"X-API-Key": KEYS[tenant]}
            return await client.post("/upload", files={"file": ("a", b"x" * size)}, headers=headers)

        first, second, other = await upload(600), await upload(600), await upload(600, "two")
        ran = (await start(client, "open('b', 'w').write('x' * 600)")).json()
        kept = (await client.get(f"/files/{ran['session_id']}")).json()
        await client.delete(f"/sessions/{first.json()['session_id']}/objects/{first.json()['files'][0]['fileId']}")
        again = await upload(600)

    text = "the files of all sessions would take 1200 bytes, more than 1000"
    assert (second.status_code, second.json()) == (
        400,
        {"error": f"{text}; delete some, or wait until old sessions are forgotten"},
    )
    assert [one.status_code for one in (first, other, again)] == [200, 200, 200]
    assert kept == []


async def test_a_workbook_goes_in_is_changed_with_pandas_and_comes_out(client: httpx.AsyncClient) -> None:
    made = (
        "import pandas as pd\npd.DataFrame({'item': ['a', 'b'], 'price': [1.5, 2.0]}).to_excel('in.xlsx', index=False)"
    )
    code = """
frames = pd.read_excel("/mnt/data/in.xlsx", sheet_name=None)
frame = frames["Sheet1"]
frame["price"] = frame["price"] * await get_weather(city="factor")
with pd.ExcelWriter("out.xlsx") as book:
    frame.to_excel(book, sheet_name="new", index=False)
print(frame["price"].sum())
"""
    first = (await start(client, made, timeout=120_000)).json()
    paused = (await start(client, code, session_id=first["session_id"], timeout=120_000)).json()

    body = (await go_on(client, paused["continuation_token"], result("call_001", 10))).json()
    (file,) = body["files"]
    book = await client.get(f"/download/{file['storage_session_id']}/{file['id']}")

    assert (first["stderr"], body["stdout"], file["name"]) == ("", "35.0\n", "out.xlsx")
    assert book.headers["content-type"] == "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    assert pd.read_excel(io.BytesIO(book.content), sheet_name="new").to_dict("list") == {
        "item": ["a", "b"],
        "price": [15, 20],
    }
