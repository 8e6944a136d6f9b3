"""Calls the tools of `gpool mcp`; prints a line for each call."""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def server(*flags):
    return StdioServerParameters(command="gpool", args=["mcp", *flags], env=dict(os.environ))


async def names(*flags):
    async with stdio_client(server(*flags)) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        return [tool.name for tool in (await session.list_tools()).tools]


async def main():
    print("tools", *await names())
    print("allowed", *await names("--allow", "submit"))
    allow = ("--allow", "submit,cancel")
    async with stdio_client(server(*allow)) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        for line in sys.stdin:
            name, arguments = json.loads(line)
            answer = await session.call_tool(name, arguments)
            assert json.loads(answer.content[0].text) == answer.structured_content
            print(json.dumps([name, answer.is_error, answer.structured_content]))
    async with stdio_client(server()) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        answer = await session.call_tool("cancel", {"jobs": ["1"]})
        print("refused", answer.is_error, answer.structured_content["try"])


asyncio.run(main())
