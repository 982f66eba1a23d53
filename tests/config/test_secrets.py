"""What is taken for a secret in the files of other clients, and what is not."""

import pytest

from toolfold.config.server_entries import secrets_in


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("hunter2", "DB_PASSWORD", {"DB_PASSWORD": "hunter2"}),
        ("abc", "apiKey", {"apiKey": "abc"}),
        ("Bearer abc", "Authorization", {"Authorization": "abc"}),
        ("postgres://ada:pa/ss@w0rd@db.example.org:5432/app", "DATABASE_URL", {"password": "pa/ss@w0rd"}),
        ("--api-key=abc", "", {"--api-key": "abc"}),
        ("GITHUB_TOKEN=abc", "", {"GITHUB_TOKEN": "abc"}),
        ("Authorization: Bearer abc", "", {"Authorization": "abc"}),
        ('{"apiKey": "abc", "region": "eu"}', "", {"apiKey": "abc"}),
        ('{"Authorization": "Bearer ntn_1", "Notion-Version": "2022-06-28"}', "HEADERS", {"Authorization": "ntn_1"}),
        ("https://example.org/mcp?api_key=abc&project=x", "", {"api_key": "abc"}),
        ("https://mcp.example.org/s/NjM4ZTIx0WYtYmQ4Zi00/mcp", "", {"": "NjM4ZTIx0WYtYmQ4Zi00"}),
        ("https://o1.ingest.example.org/?x=5f1ae0c2b9d84c7e9a", "", {"": "5f1ae0c2b9d84c7e9a"}),
        ("https://7b3c9d1e5f2a4b6c8d0e@sentry.example.org/42", "URL", {"": "7b3c9d1e5f2a4b6c8d0e"}),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "", {"": "ghp_16C7e42F292c6912E7710c838347Ae178B4a"}),
        ("sk-ant-api03-AbCd-1234", "", {"": "sk-ant-api03-AbCd-1234"}),
        ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", "PROJECT", {"": "3f2504e0-4f89-11d3-9a0c-0305e82c3301"}),
        ("export API_KEY=abc; npx -y server", "", {"API_KEY": "abc"}),
        ("host=db user=ada password=abc", "CONNECTION", {"password": "abc"}),
    ],
)
def test_a_secret_is_told_by_its_name_its_place_or_its_looks(text: str, name: str, found: dict[str, str]) -> None:
    shown = {one.name.lstrip("-"): text[one.start : one.end] for one in secrets_in(text, name)}

    assert shown == {key.lstrip("-"): value for key, value in found.items()}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("eu-central-1", "AWS_REGION"),
        ("4096", "MAX_TOKENS"),
        ("/home/ada/.config/9f8e7d6c5b4a3f2e1d0c.json", "CREDENTIALS_FILE"),
        ("/run/secrets/9f8e7d6c5b4a3f2e1d0c", ""),
        ("--root=/var/lib/9f8e7d6c5b4a3f2e1d0c/data", ""),
        ("postgresql://localhost:5432/mydb", "DATABASE_URL"),
        ("https://example.org:8443/mcp/@scope/x", ""),
        ("@modelcontextprotocol/server-filesystem@2026.8.31", ""),
        ("mcp/fetch@sha256:302a8feafe25c7a0e1a2b3c4d5e6f7089a0b1c2d3e4f5061728394a5b6c7d8e9", ""),
        ("git+https://github.com/ada/server@8f3c1d2e4b5a69788796a5b4c3d2e1f0a9b8c7d6", ""),
        ("claude-sonnet-4-5-20250929", "MODEL"),
        ("Bearer ${API_TOKEN}", "Authorization"),
        ("${env:TOKEN}", "TOKEN"),
        ("-e", ""),
        ("GITHUB_PERSONAL_ACCESS_TOKEN", ""),
        ("", "API_KEY"),
        ("postgres://ada:${DB_PASSWORD}@db/app", "DATABASE_URL"),
        ("C:\\Users\\ada\\9f8e7d6c5b4a3f2e1d0c", ""),
    ],
)
def test_what_is_no_secret_is_left_alone(text: str, name: str) -> None:
    assert secrets_in(text, name) == []
