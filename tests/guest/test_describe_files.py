"""`describe_files()`: what is in the files of a program, read in its own guest."""

import io
import json
import sqlite3
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pandas as pd
import pytest
import pytest_asyncio

from toolfold import File, Runtime
from toolfold.models import Problem

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(engine="process") as runtime:
        yield runtime


async def described(runtime: Runtime, **files: bytes) -> dict[str, object]:
    """What it says of each file beside name and size; the last part of a keyword is the extension."""
    given = [File(name=".".join(name.rsplit("_", 1)), data=data) for name, data in files.items()]
    outcome = await runtime.run("describe_files()", files=given)
    assert outcome.status == "finished", outcome.problem
    return {one["name"]: {key: one[key] for key in one.keys() - {"name", "bytes"}} for one in outcome.value}


async def test_csv(runtime: Runtime) -> None:
    text = "id,name,price,when,code,ok\n1,a,1.5,2024-01-02,007,true\n2,b,,2024-01-03,008,false\n"

    found = await described(
        runtime,
        a_csv=text.encode(),
        semi_csv=b"a;b\n1;2\n",
        bare_csv=b"1,2\n3,4\n",
        none_csv=b"",
        t_tsv=b"a\tb\n1\tx\n",
    )

    columns = {"id": "int", "name": "str", "price": "float?", "when": "date", "code": "str", "ok": "bool"}
    assert found == {
        "a.csv": {"rows": 2, "columns": columns},
        "bare.csv": {"rows": 2, "columns": {"column 1": "int", "column 2": "int"}},
        "none.csv": {"rows": 0, "columns": {}},
        "semi.csv": {"rows": 1, "columns": {"a": "int", "b": "int"}, "delimiter": ";"},
        "t.tsv": {"rows": 1, "columns": {"a": "int", "b": "str"}, "delimiter": "\t"},
    }


async def test_json(runtime: Runtime) -> None:
    records = [{"a": 1, "b": "x", "c": [1]}, {"a": 2.5, "b": None, "d": "7"}]

    found = await described(
        runtime, list_json=json.dumps(records).encode(), lines_jsonl=b'{"a": 1}\n\n{"a": 2}\n', dict_json=b'{"users": [1, 2], "n": 3}',
        one_json=b"3", bad_json=b"{",
    )  # fmt: skip

    assert found == {
        "bad.json": {
            "error": "cannot be read (JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1))"
        },
        "dict.json": {"type": "dict of users list of 2, n int", "keys": {"users": "list of 2", "n": "int"}},
        "lines.jsonl": {"rows": 2, "columns": {"a": "int"}},
        "list.json": {"rows": 2, "columns": {"a": "float", "b": "str?", "c": "list?", "d": "str?"}},
        "one.json": {"type": "int"},
    }


async def test_workbooks(runtime: Runtime) -> None:
    book = io.BytesIO()
    with pd.ExcelWriter(book) as writer:
        sales = {
            "item": ["a", "b"],
            "price": [1, 2.5],
            "when": pd.to_datetime(["2024-01-02", "2024-01-03"]),
            "ok": [True, False],
        }
        pd.DataFrame(sales).to_excel(writer, sheet_name="Sales", index=False)
        pd.DataFrame({"x": [1, None, 3]}).to_excel(writer, sheet_name="Other one", index=False)

    found = await described(runtime, a_xlsx=book.getvalue())

    assert found == {
        "a.xlsx": {
            "sheets": {
                "Sales": {"rows": 2, "columns": {"item": "str", "price": "float", "when": "date", "ok": "bool"}},
                "Other one": {"rows": 2, "columns": {"x": "int"}},
            }
        }
    }


async def test_sqlite(runtime: Runtime, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "a.db") as base:
        base.execute("create table users (id integer primary key, name text, score real)")
        base.executemany("insert into users (name, score) values (?, ?)", [("a", 1.0), ("b", 2.0)])
        base.execute('create view "top ""one""" as select name from users')
    base.close()

    found = await described(runtime, a_db=(tmp_path / "a.db").read_bytes())

    assert found == {
        "a.db": {
            "tables": {
                'top "one"': {"rows": 2, "columns": {"name": "text"}},
                "users": {"rows": 2, "columns": {"id": "integer", "name": "text", "score": "real"}},
            }
        }
    }


# Written with pyarrow: {"id": [1, 2, 3], "name": ["a", None, "c"], "price": [1.5, 2, 3], "when": dates, "tags": lists}.
PARQUET = Path(__file__).with_name("described.parquet")


async def test_parquet_without_a_library_for_it(runtime: Runtime) -> None:
    data = PARQUET.read_bytes()

    found = await described(runtime, a_parquet=data, cut_parquet=data[:-9], bad_parquet=b"PAR1" * 5)

    assert found == {
        "a.parquet": {
            "rows": 3,
            "columns": {
                "id": "int?",
                "name": "str?",
                "price": "float?",
                "when": "date?",
                "tags": "list?",
                "pos": "dict?",
            },
        },
        "bad.parquet": {"error": "cannot be read (ValueError: not a Parquet file, or one with a sealed footer)"},
        "cut.parquet": {"error": "cannot be read (ValueError: not a Parquet file, or one with a sealed footer)"},
    }


async def test_a_file_that_unpacks_to_too_much_is_told_and_not_read(runtime: Runtime) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", b"<sst>" + b" " * (257 * 1024 * 1024) + b"</sst>")

    found = await described(runtime, bomb_xlsx=bomb.getvalue(), text_xlsx=b"no zip")

    assert found == {
        "bomb.xlsx": {"error": "cannot be read (ValueError: xl/sharedStrings.xml unpacks to 269484043 bytes)"},
        "text.xlsx": {"error": "cannot be read (BadZipFile: File is not a zip file)"},
    }


async def test_it_prints_one_line_per_file_and_takes_names_and_patterns(runtime: Runtime) -> None:
    files = [File(name=name, data=b"a,b\n1,x\n") for name in ("one.csv", "two.csv", "deep/three.csv")]
    files.append(File(name="readme.txt", data=b"hello"))

    outcome = await runtime.run(
        "print(describe_files())\nprint(await describe_files('two.csv', '/mnt/data/deep/*'))\n"
        "from tools import describe_files as d\nlen(d('*.csv'))", files=files,
    )  # fmt: skip
    missing = await runtime.run("describe_files('three.csv')", files=files[:1])

    table = "1 rows of a int, b str"
    assert outcome.stdout.splitlines() == [
        f"one.csv (8 bytes): {table}", "readme.txt (5 bytes)", f"two.csv (8 bytes): {table}", f"deep/three.csv (8 bytes): {table}",
        f"two.csv (8 bytes): {table}", f"deep/three.csv (8 bytes): {table}",
    ]  # fmt: skip
    assert outcome.value == 3
    assert isinstance(missing.problem, Problem)
    assert missing.problem.message == "FileNotFoundError: no file 'three.csv'; there are one.csv"
