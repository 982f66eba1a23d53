from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from toolfold.models import Call, ToolSpec
from toolfold.tools.catalog import Catalog
from toolfold.tools.router import Router
from toolfold.tools.search import Index, describe, search_tool
from toolfold.tools.search_vocabulary import query_weights, stem, words_of
from toolfold.tools.tool import python_name


def spec(name: str, description: str = "", properties: dict[str, Any] | None = None, **more: Any) -> ToolSpec:
    schema = {"type": "object", "properties": properties or {}}
    return ToolSpec(name=name, python_name=python_name(name), description=description, input_schema=schema, **more)


TOOLS = (
    spec("get_users", "People of one department.", {"department": {"type": "string"}}, domain="hr"),
    spec("getExpenses", "What one user has spent.", {"quarter": {"description": "A part of the fiscal year."}}),
    spec("send-email", "Send a message.", {"to": {}, "body": {}}),
    spec("weather.forecast", "Tomorrow's weather.", {"unit": {"enum": ["celsius", "fahrenheit"]}}),
    spec("delete_user", "Remove a person for good.", {"options": {"properties": {"archive": {}}}}, destructive=True),
    spec("日本語", "日本の天気を調べます。"),
)


def found(query: str, limit: int = 1) -> list[str]:
    return [hit.spec.name for hit in Index(TOOLS).search(query, limit)]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("who works in the departments?", "get_users"),
        ("hr", "get_users"),
        ("expense", "getExpenses"),
        ("fiscal", "getExpenses"),
        ("emailing people", "send-email"),
        ("mail to send", "send-email"),
        ("is it 20 celsius in Paris", "weather.forecast"),
        ("archive", "delete_user"),
        ("天気", "日本語"),
        ("send-email", "send-email"),
        ("SEND_EMAIL", "send-email"),
    ],
)
def test_a_tool_is_found_by_name_description_arguments_choices_and_domain(query: str, name: str) -> None:
    assert found(query) == [name]


@pytest.mark.parametrize(
    ("query", "name"), [("wether", "weather.forecast"), ("forcast", "weather.forecast"), ("expnese", "getExpenses")]
)
def test_a_misspelt_word_of_a_name_is_understood(query: str, name: str) -> None:
    assert found(query) == [name]


def test_the_best_come_first_and_no_more_than_asked_for() -> None:
    hits = Index(TOOLS).search("users", limit=3)

    assert [hit.spec.name for hit in hits] == ["get_users", "delete_user", "getExpenses"]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_what_fits_nothing_finds_nothing_and_an_empty_query_shows_the_first() -> None:
    assert (found("quantum"), found("the of 42"), found("", limit=2)) == ([], [], ["get_users", "getExpenses"])


def test_an_updated_index_is_equal_to_a_new_one_and_reads_only_what_is_new() -> None:
    before = Index(TOOLS)
    tools = [*TOOLS[1:], spec("ban_user", "Lock someone out."), replace(TOOLS[0], description="Staff.")]

    after = before.updated(tools)

    for query in ("user", "people", "staff", "lock"):
        assert after.search(query) == Index(tools).search(query)
    assert (len(before), len(after)) == (6, 7)


def test_a_search_in_ten_thousand_tools_finds_the_right_ones() -> None:
    tools = [spec(f"{verb}_{n}", f"{verb} the record number {n} of things") for n in range(2500) for verb in
             ("get", "list", "update", "remove")]  # fmt: skip
    index = Index(tools)

    hits = index.search("update record 1200 now", 5)

    assert [hit.spec.name.partition("_")[0] for hit in hits] == ["update"] * 5


@given(query=st.text(), words=st.lists(st.text(), max_size=3))
def test_no_text_breaks_a_search(query: str, words: list[str]) -> None:
    index = Index([spec(word, query, {word: query}) for word in words])

    assert len(index.search(query, 2)) <= 2


def test_a_hostile_schema_is_searched_by_what_it_has() -> None:
    circular: dict[str, Any] = {"properties": {"known": {"description": 3, "enum": "x"}}}
    circular["properties"]["self"] = circular
    bad = ToolSpec(name="bad", python_name="bad", description="x " * 1_000_000, input_schema=circular)

    assert [hit.spec for hit in Index([bad]).search("known")] == [bad]


def test_names_are_split_and_endings_cut() -> None:
    assert list(words_of("getHTTPResponse_v2, queries & batches of boxes")) == snapshot(
        ["get", "http", "respons", "v", "2", "queri", "batch", "box"]
    )
    assert [stem(word) for word in ("running", "planned", "selling", "bus", "class", "status", "sing")] == snapshot(
        ["run", "plan", "sell", "bus", "class", "status", "sing"]
    )


def test_values_in_a_question_count_less_than_its_words() -> None:
    assert query_weights("Book 2 flights to Paris on 3 May. Use plan B") == snapshot(
        {"book": 1.0, "flight": 1.0, "paris": 0.7, "may": 0.7, "plan": 1.0}
    )


def test_quoted_words_of_a_question_count_less_unless_all_of_it_is_quoted() -> None:
    assert query_weights("translate 'good morning' into French") == snapshot(
        {"translat": 1.0, "good": 0.7, "morn": 0.7, "french": 0.7}
    )
    assert query_weights('"translate the text"') == snapshot({"translat": 1.0, "text": 1.0})


def test_a_tool_is_described_in_three_levels_of_detail() -> None:
    name = describe(TOOLS[0], "name")
    signature = describe(TOOLS[0], "signature")
    full = describe(TOOLS[0], "full")

    assert name == {"name": "get_users", "description": "People of one department.", "domain": "hr"}
    text = 'async def get_users(*, department: str = ...) -> Any:\n    """People of one department."""\n'
    assert signature == {**name, "signature": text}
    assert full == {
        **signature, "tool": "get_users", "input_schema": TOOLS[0].input_schema, "output_schema": None,
        "read_only": False, "destructive": False, "source": "function",
    }  # fmt: skip


async def test_search_tools_is_a_tool_like_any_other() -> None:
    tool = search_tool(lambda _tenant: Index(TOOLS))
    router = Router(Catalog([tool]))

    reply = await router.serve(Call(id=1, tool="search_tools", arguments={"query": "email", "detail": "name"}))
    wrong = await router.serve(Call(id=2, tool="search_tools", arguments={"query": "email", "limit": 0}))

    assert tool.spec.read_only
    assert reply.value == [{"name": "send_email", "description": "Send a message."}]
    assert wrong.error == snapshot("'search_tools' got a bad argument: limit: 0 is less than the minimum of 1")


MANY = [
    *(spec(f"get_{noun}", f"Get one {noun} by its id.") for noun in ("invoice", "customer", "shipment", "refund")),
    *(spec(f"tool_{number}", f"Handle item {number} of the archive.") for number in range(40)),
    spec("current_weather", "Weather conditions of a place."),
]


def test_a_question_that_nothing_answers_finds_nothing_and_names_the_nearest_domains() -> None:
    tools = [*MANY, replace(spec("play_song", "Play a song."), domain="music")]
    index = Index(tools)

    assert index.search("which lullaby song calms a grumpy walrus") == []
    assert index.domains_near("which lullaby song calms a grumpy walrus") == ["music"]
    assert index.search("play a song")[0].spec.name == "play_song"


def test_among_few_tools_a_weak_match_is_shown() -> None:
    tools = [spec("post_message", "Post to Slack."), spec("get_user", "Get a user.")]

    assert [hit.spec.name for hit in Index(tools).search("tell the ops channel on slack")] == ["post_message"]


def test_another_word_for_the_same_thing_finds_a_tool() -> None:
    assert Index(MANY).search("what is the temperature")[0].spec.name == "current_weather"


@pytest.mark.parametrize(("one", "many"), [("movie", "movies"), ("city", "cities"), ("query", "queries")])
def test_a_word_and_its_plural_have_one_stem(one: str, many: str) -> None:
    assert stem(one) == stem(many)


def test_a_usual_short_form_is_the_word_that_it_stands_for() -> None:
    tools = [*MANY, spec("run_cmd", "Run it.")]

    assert Index(tools).search("command", 1)[0].spec.name == "run_cmd"
    assert Index([*MANY, spec("run_command", "Run it.")]).search("cmd", 1)[0].spec.name == "run_command"


@pytest.mark.parametrize(
    ("asked", "tool"), [("discover", "discoverer"), ("inventor", "invention"), ("similarity", "similar")]
)
def test_a_word_made_from_the_same_one_finds_a_tool(asked: str, tool: str) -> None:
    assert Index([*MANY, spec(f"get_{tool}")]).search(asked, 1)[0].spec.name == f"get_{tool}"


@pytest.mark.parametrize(
    ("value", "argument"),
    [
        ("on April 5th, 2023", "date"),
        ("at 4:30 pm", "time"),
        ("at https://example.org/a", "url"),
        ("to ann@example.org", "email"),
        ("at 37.8651, -119.5383", "latitude"),
        ("for $20", "amount"),
        ("near Oslo", "city"),
    ],
)
def test_of_tools_that_fit_alike_the_one_that_takes_the_value_in_the_question_comes_first(
    value: str, argument: str
) -> None:
    tools = [spec("plain_booking", "Make it.", {"note": {}}), spec("other_booking", "Make it.", {argument: {}})]

    assert Index(tools).search(f"make a booking {value}", 1)[0].spec.name == "other_booking"


def test_a_value_alone_finds_no_tool() -> None:
    assert Index([spec("remind", "Tell me later.", {"date": {}})]).search("2023-04-05") == []


def test_what_an_apostrophe_leaves_is_no_word_of_a_question() -> None:
    assert query_weights("I'll go, I've seen, don't wait") == snapshot({"go": 1.0, "seen": 1.0, "wait": 1.0})


def test_a_name_that_the_question_has_whole_comes_before_a_longer_one() -> None:
    longer = spec("get_invoice_payment_reminder", "Get the reminder of an invoice: get it for each invoice.")
    tools = [longer, *MANY]

    assert [hit.spec.name for hit in Index(tools).search("get the invoice", 1)] == ["get_invoice"]


def test_each_sentence_of_a_question_finds_its_tool() -> None:
    payments = [spec(f"invoice_payment_{n}", "Payment of an open invoice of a customer.") for n in range(6)]
    question = (
        "List the open invoices of my customer. Then check the payment of each open invoice. "
        "Finally, which weather conditions has Oslo?"
    )

    names = [hit.spec.name for hit in Index([*payments, *MANY]).search(question, 5)]

    assert "current_weather" in names


def test_of_tools_that_fit_alike_the_one_that_is_called_more_often_comes_first() -> None:
    tools = [spec("find_user", "Find a user."), spec("find_user_2", "Find a user.")]

    hits = Index(tools, uses={"find_user_2": 7}).search("find a user")

    assert [hit.spec.name for hit in hits] == ["find_user_2", "find_user"]


def test_keys_that_a_tool_was_seen_to_return_are_words_to_find_it_by() -> None:
    schema = {"type": "object", "properties": {"temperature": {"type": "number"}}}
    tools = [*MANY[:-1], replace(spec("lookup", "Look at a place."), output_schema=schema)]

    assert Index(tools).search("temperature")[0].spec.name == "lookup"
