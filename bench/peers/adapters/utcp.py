"""UTCP's `code-mode`: RestrictedPython in a thread of the same process.

Its tools come by a protocol plug-in; this one calls functions. Programs call `tools.name(...)` without
`await` and give their result with `return`.
"""

from collections.abc import AsyncGenerator
from typing import Any, Self

from utcp.data.call_template import CallTemplate, CallTemplateSerializer
from utcp.data.register_manual_response import RegisterManualResult
from utcp.data.tool import JsonSchema, Tool
from utcp.data.utcp_manual import UtcpManual
from utcp.interfaces.communication_protocol import CommunicationProtocol
from utcp.interfaces.serializer import Serializer
from utcp_code_mode import CodeModeUtcpClient

from bench.peers.adapters.base import Adapter, Function, Ran
from bench.peers.spelling import without_await

KIND, MANUAL = "functions", "tools"


class Utcp(Adapter):
    async def __aenter__(self) -> Self:
        CallTemplateSerializer.call_template_serializers[KIND] = _Templates()
        CommunicationProtocol.communication_protocols[KIND] = _Functions(self.tools)
        self._client = await CodeModeUtcpClient.create()
        await self._client.register_manual(CallTemplate(name=MANUAL, call_template_type=KIND))
        return self

    def spell(self, text: str) -> str:
        return without_await(text, self.tools, module=MANUAL, returns=True)

    async def run(self, text: str) -> Ran:
        answer = await self._client.call_tool_chain(text)
        logs = answer["logs"]
        if logs and logs[-1].startswith("[ERROR] "):
            raise RuntimeError(logs[-1].removeprefix("[ERROR] "))
        return Ran(answer["result"], "".join(f"{line}\n" for line in logs))


class _Templates(Serializer[CallTemplate]):
    def to_dict(self, obj: CallTemplate) -> dict[str, Any]:
        return obj.model_dump()

    def validate_dict(self, obj: dict[str, Any]) -> CallTemplate:
        return CallTemplate.model_validate(obj)


class _Functions(CommunicationProtocol):
    def __init__(self, tools: dict[str, Function]) -> None:
        self._tools = tools

    async def register_manual(self, caller: Any, manual_call_template: CallTemplate) -> RegisterManualResult:
        tools = [
            Tool(
                name=name,
                description=tool.__doc__ or "",
                inputs=JsonSchema(type="object"),
                outputs=JsonSchema(),
                tool_call_template=manual_call_template,
            )
            for name, tool in self._tools.items()
        ]
        manual = UtcpManual(tools=tools)
        return RegisterManualResult(manual_call_template=manual_call_template, manual=manual, success=True)

    async def deregister_manual(self, caller: Any, manual_call_template: CallTemplate) -> None:
        return

    async def call_tool(self, caller: Any, tool_name: str, tool_args: dict[str, Any], tool_call_template: Any) -> Any:
        return await self._tools[tool_name.removeprefix(f"{MANUAL}.")](**tool_args)

    async def call_tool_streaming(
        self, caller: Any, tool_name: str, tool_args: dict[str, Any], tool_call_template: Any
    ) -> AsyncGenerator[Any, None]:
        yield await self.call_tool(caller, tool_name, tool_args, tool_call_template)
