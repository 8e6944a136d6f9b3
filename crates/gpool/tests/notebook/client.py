"""Uses a Jupyter server through gpool, as a tab of a browser does.

    client.py URL

Each line of standard input is a word and a value in JSON: a cell to run, a cell to begin without
waiting for it, or a process to look for. Each gets a line of JSON.
"""

import asyncio
import json
import sys
import uuid

from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect


class Tab:
    def __init__(self, url):
        scheme, _, self.host, path = url.split("/", 3)
        self.path = "/" + path
        self.port = self.host.rsplit(":", 1)[1]
        self.cookies = {}
        self.origin = f"{scheme}//{self.host}"

    def request(self, path, scheme="http", **more):
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        headers = {"Host": self.host, "Cookie": cookies, "Origin": self.origin}
        if "_xsrf" in self.cookies:
            headers["X-XSRFToken"] = self.cookies["_xsrf"]
        headers.update(more.pop("headers", {}))
        return HTTPRequest(f"{scheme}://127.0.0.1:{self.port}{path}", headers=headers,
                           follow_redirects=False, request_timeout=60, **more)

    async def fetch(self, path, **more):
        answer = await AsyncHTTPClient().fetch(self.request(path, **more), raise_error=False)
        for cookie in answer.headers.get_list("Set-Cookie"):
            name, value = cookie.split(";")[0].split("=", 1)
            self.cookies[name] = value
        return answer

    async def open(self):
        answer = await self.fetch(self.path)
        assert (answer.code, answer.headers["Location"]) == (303, "/"), answer.code
        again = await self.fetch(self.path)
        assert again.code == 303, "the tab is open already"
        # The page sets the cookie that Jupyter compares in changes.
        page = await self.fetch("/lab")
        assert page.code == 200 and b"JupyterLab" in page.body, page.code
        kernels = await self.fetch("/api/kernels", method="POST", body="{}")
        assert kernels.code == 201, (kernels.code, kernels.body)
        self.kernel = json.loads(kernels.body)["id"]
        path = f"/api/kernels/{self.kernel}/channels"
        for wrong in ({"Origin": "http://evil.example"}, {"Cookie": ""}):
            try:
                await websocket_connect(self.request(path, scheme="ws", headers=wrong))
                raise AssertionError(f"{wrong} opens a websocket")
            except HTTPClientError as error:
                assert error.code in (401, 403), error.code
        self.socket = await websocket_connect(self.request(path, scheme="ws"))

    async def begin(self, code):
        self.id = uuid.uuid4().hex
        header = {"msg_id": self.id, "username": "", "session": self.id, "version": "5.3",
                  "msg_type": "execute_request", "date": ""}
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {},
                   "allow_stdin": False, "stop_on_error": True}
        await self.socket.write_message(json.dumps(
            {"header": header, "parent_header": {}, "metadata": {}, "content": content,
             "channel": "shell", "buffers": []}))

    async def wait(self):
        """The output of the last cell, or the word that its kernel died."""
        text = ""
        while True:
            message = await asyncio.wait_for(self.socket.read_message(), 120)
            assert message is not None, "the websocket was closed"
            message = json.loads(message)
            content = message["content"]
            if content.get("execution_state") in ("restarting", "dead"):
                return "died"
            if message["parent_header"].get("msg_id") != self.id:
                continue
            if message["msg_type"] == "stream":
                text += content["text"]
            if message["msg_type"] == "error":
                text += f"{content['ename']}: {content['evalue']}"
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                return text.strip()


async def main():
    tab = Tab(sys.argv[1])
    await tab.open()
    print(json.dumps("open"), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        word, value = json.loads(line)
        answer = None
        if word in ("begin", "run"):
            await tab.begin(value)
        if word in ("wait", "run"):
            answer = await tab.wait()
        if word == "get":
            answer = (await tab.fetch(value)).code
        print(json.dumps(answer), flush=True)


asyncio.run(main())
