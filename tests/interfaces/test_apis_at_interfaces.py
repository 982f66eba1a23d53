import json

from toolfold.config import load_config
from toolfold.config.build import declared_tools, runtime_settings
from toolfold.interfaces.config_runtime import config_tools, open_runtime, permitted_tools
from toolfold.interfaces.http.server_setup import open_app

OK = {"200": {"description": "ok"}}
PATHS = {"/a": {"get": {"operationId": "op", "responses": OK}, "delete": {"operationId": "drop", "responses": OK}}}
CONFIG = """
tools:
  block: [shop_drop]
  commands: [{name: hello, argv: [echo, hello]}]
  fetch: {hosts: [api.example.com]}
  apis: [{name: shop, spec: api.json, base_url: "https://shop.example"}]
http:
  keys: {acme: 0123456789abcdef, other: fedcba9876543210}
  tools: {acme: [shop_*]}
ledger: {where: memory}
"""


def config_of(tmp_path, text=CONFIG):
    (tmp_path / "api.json").write_text(json.dumps({"openapi": "3.1.0", "paths": PATHS}))
    (tmp_path / "toolfold.yaml").write_text(text)
    return load_config(tmp_path / "toolfold.yaml")


async def test_a_config_gives_the_same_tools_and_policy_on_the_command_line_and_in_the_library(tmp_path):
    config = config_of(tmp_path)
    options = runtime_settings(config)

    permitted = await permitted_tools(config, config_tools(config), options.policy)
    library = open_runtime(config, declared_tools(config), options)

    assert [spec.name for spec in permitted] == ["hello", "shop_op", "fetch"]
    assert [spec.name for spec in library.tools if spec.source != "toolfold"] == [
        "hello",
        "shop_op",
        "shop_drop",
        "fetch",
    ]
    assert [spec for spec in library.tools if options.policy.permits(spec) and spec.source != "toolfold"] == list(
        permitted
    )


def test_under_serve_only_the_tenants_that_are_named_reach_apis_and_fetch(tmp_path):
    config = config_of(tmp_path)

    runtime = open_runtime(config, declared_tools(config), runtime_settings(config), tenants={"acme": ["shop_*"]})

    assert runtime.hidden_from("acme") == {"fetch"}
    assert runtime.hidden_from("other") == {"shop_op", "shop_drop", "fetch"}


async def test_under_serve_without_named_tenants_nobody_reaches_them_and_a_line_says_so(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    config = config_of(tmp_path, CONFIG.replace("  tools: {acme: [shop_*]}\n", ""))

    _, ledger = await open_app(config)
    await ledger.close()

    assert (
        "no tenant may call the tools of 'tools.apis' and 'tools.fetch'; name tenants in http.tools" in caplog.messages
    )
