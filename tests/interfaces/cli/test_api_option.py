import json

from tests.sources.openapi.serving import Answer, Serving
from toolfold.interfaces.cli.app import run_command

OK = {"200": {"description": "ok", "content": {"application/json": {}}}}
DOCUMENT = {"openapi": "3.1.0", "paths": {"/a": {"get": {"operationId": "op", "summary": "Get it", "responses": OK}}}}


def answer(asked):
    return Answer(body=json.dumps(DOCUMENT if asked.path.startswith("/openapi") else {"asked": asked.path}).encode())


def test_an_api_of_the_command_line_is_listed_searched_and_called(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text("print(await shop_op())")

    with Serving(answer) as server:
        spec = f"{server.url}/openapi.json"
        codes = [
            run_command(["tools", "list", "--api", spec]),
            run_command(["tools", "search", "--api", f"shop={spec}", "get it"]),
            run_command(["run", "--api", f"shop={spec}", "--ledger", "memory", "program.py"]),
        ]

    listed = "openapi_op  Get it\nshop_op  Get it\n"
    assert (codes, capfd.readouterr().out) == ([0, 0, 0], f"{listed}{{'asked': '/a'}}\n")


def test_a_document_that_is_not_there_is_wrong_usage(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)

    code = run_command(["tools", "list", "--api", "missing.json"])

    assert (code, capfd.readouterr().err) == (
        2,
        "toolfold: API 'missing.json': the document cannot be read: no such file or directory\n",
    )


def test_a_file_that_names_localhost_is_called_where_the_command_line_says(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    local = {**DOCUMENT, "servers": [{"url": "http://localhost:1/v1"}]}
    (tmp_path / "shop.json").write_text(json.dumps(local))
    (tmp_path / "program.py").write_text("print(await shop_op())")
    run = ["run", "--ledger", "memory", "program.py", "--api", "shop=shop.json"]

    with Serving(answer) as server:
        codes = [
            run_command([*run, "--api-base-url", server.url]),
            run_command([*run, "--api-base-url", f"shop={server.url}/v2", "--api", f"other={server.url}/openapi.json"]),
            run_command(["tools", "list", "--api", "shop=shop.json", "--api-base-url", server.url]),
            run_command(run),
            run_command([*run, "--api-base-url", f"shoop={server.url}"]),
        ]

    captured = capfd.readouterr()
    assert codes == [0, 0, 0, 2, 2]
    assert captured.out == "{'asked': '/a'}\n{'asked': '/v2/a'}\nshop_op  Get it\n"
    assert captured.err == (
        "toolfold: API 'shop': the document's server 'localhost' is at a private address; if that is meant, set 'base_url', "
        "or --api-base-url on the command line\n"
        "toolfold: --api-base-url is for no --api named 'shoop'; add --api NAME=SPEC\n"
    )
