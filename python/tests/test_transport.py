"""The client with servers that are missing, old, or answer badly."""

import contextlib
import json
import os
import socket
import tempfile
import threading
import unittest

from support import Case, python

import gpool
from gpool import servers

PROBLEM = "application/problem+json"


@contextlib.contextmanager
def answering(*answers):
    """A server with these answers, one for each connection: bytes as they are, or status, kind and
    body. Yields its address and the requests."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = f"{folder}/api.sock"
        listener.bind(path)
        listener.listen()
        requests = []

        def serve():
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    requests.append(_request(connection))
                    connection.sendall(answer if isinstance(answer, bytes) else _http(*answer))

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"unix:{path}", requests
        thread.join()


def _request(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    n_bytes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
    while n_bytes and len(body) < int(n_bytes[0].split(b":")[1]):
        body += connection.recv(65536)
    return head.decode(), body


def _http(status, kind, body):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(content)}\r\n"
    return f"{head}connection: close\r\n\r\n".encode() + content


class Missing(unittest.TestCase):
    def test_a_missing_server_is_reported_at_once_with_each_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            client = gpool.Client(f"unix:{folder}/api.sock")
            for ask in (client.version, client.events, lambda: client.submit(["true"])):
                with self.assertRaises(gpool.Unreachable) as caught:
                    ask()
                self.assertEqual(caught.exception.code, "GP0301")
                self.assertIn("there is no such socket", str(caught.exception))
                self.assertIn("try  gpool up", str(caught.exception))
                self.assertFalse(caught.exception.maybe_done)
            code = "import gpool; gpool.Client()"
            hidden = {"GPOOL_SOCKET": "", "XDG_RUNTIME_DIR": folder, "HOME": folder}
            done = python(code, **hidden)
            self.assertIn("no gpool server answers (GP0301)", done.stderr)

    def test_a_lost_connection_is_repeated_only_where_that_is_safe(self):
        with answering(b"", b"", (200, "application/json", {"id": "1"})) as (server, requests):
            client = gpool.Client(server)
            self.assertEqual(client.submit(["true"])["id"], "1")
            keys = {line for head, _ in requests for line in head.split("\r\n") if "Idemp" in line}
            self.assertEqual((len(requests), len(keys)), (3, 1))
        with answering(b"") as (server, requests):
            with self.assertRaises(gpool.Unreachable) as caught:
                gpool.Client(server).cancel(1)
            self.assertTrue(caught.exception.maybe_done)
            self.assertIn("check before you repeat", str(caught.exception))

    def test_a_server_that_starts_or_has_too_much_to_do_is_asked_again(self):
        not_ready = (503, PROBLEM, {"code": "GP0307", "detail": "not ready"})
        too_many = (429, PROBLEM, {"code": "GP0112", "detail": "too many requests"})
        version = (200, "application/json", {"name": "gpool"})
        with answering(not_ready, too_many, version) as (server, _):
            self.assertEqual(gpool.Client(server).version()["name"], "gpool")
        with answering(not_ready) as (server, _), self.assertRaises(gpool.Unreachable):
            gpool.Client(server, retry_for=0).version()

    def test_a_silent_server_ends_a_request_with_a_time_limit(self):
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/api.sock")
            listener.listen()
            with self.assertRaises(gpool.TimedOut):
                gpool.Client(f"unix:{folder}/api.sock", timeout=0.05).version()


class Other(unittest.TestCase):
    def test_an_old_server_names_the_field_or_the_path_that_it_lacks(self):
        unknown = {"code": "GP0103", "detail": 'there is no field "yields"', "why": ["valid: a"]}
        path = {"code": "GP0105", "detail": "there is no path", "try": ["GET /openapi.json"]}
        with answering((400, PROBLEM, unknown), (404, PROBLEM, path)) as (server, _):
            client = gpool.Client(server)
            with self.assertRaisesRegex(gpool.Refused, 'no field "yields"'):
                client.submit(["true"], request={"yields": "USR1"})
            with self.assertRaisesRegex(gpool.NotFound, "GET /openapi.json"):
                client.quota()

    def test_answers_with_unknown_parts_are_taken(self):
        job = {"id": "1", "state": "resting", "mood": {"fine": True}}
        event = b'HTTP/1.1 200 OK\r\n\r\n:alive\n\nid: 7\ndata: {"id":"7","type":"new","x":1}\n\n'
        with answering((200, "application/json", job), event) as (server, _):
            client = gpool.Client(server)
            self.assertEqual(client.job(1), job)
            with client.events() as events:
                self.assertEqual((next(events)["type"], events.last), ("new", "7"))

    def test_bad_answers_are_errors_of_gpool(self):
        answers = [
            (200, "application/json", b"{"),
            (500, "text/plain", b"<html>"),
            (400, PROBLEM, [1]),
            (418, PROBLEM, {"why": "a text", "try": None}),
        ]
        with answering(*answers) as (server, _):
            client = gpool.Client(server)
            for _ in answers:
                with self.assertRaises(gpool.GpoolError) as caught:
                    client.version()
                self.assertTrue(str(caught.exception))
        for answer in (b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx"):
            with answering(answer) as (server, _), self.assertRaises(gpool.Unreachable):
                gpool.Client(server, retry_for=0).version()

    def test_errors_can_be_pickled(self):
        import pickle

        error = gpool.Refused("no", code="GP0412", why=["a"], try_=["b"], status=422)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), again.status), (str(error), 422))


class Places(unittest.TestCase):
    def test_bad_addresses_are_refused(self):
        for server in (
            "lab1",
            "http://lab1",
            "unix:/" + "x" * 200,
            "https://",
            "https://a:b",
            "https://user@host",
        ):
            with self.subTest(server=server), self.assertRaises(gpool.Refused):
                gpool.Client(server)

    def test_contexts_are_read_without_a_parser_of_toml(self):
        text = (
            '# written by gpool login\ncurrent = "lab"\n\n[contexts.lab]\n'
            'server = "https://lab1:7443"\ntoken = "gp_\\"x"\n\n[contexts."a b"]\nserver = \'s\'\n'
        )
        expected = {
            "current": "lab",
            "contexts": {
                "lab": {"server": "https://lab1:7443", "token": 'gp_"x'},
                "a b": {"server": "s"},
            },
        }
        self.assertEqual(servers._parsed_strings(text), expected)
        self.assertEqual(servers.parsed(text), expected)
        for bad in ("current = 3\n", "current\n", "a = 'b\nc"):
            with self.assertRaises(ValueError):
                servers._parsed_strings(bad)


class Network(Case):
    def setUp(self):
        super().setUp()
        from support import run_gpool

        authority = json.loads(run_gpool("ca", "show", "--json"))
        made = json.loads(run_gpool("token", "create", "--json"))
        self.address, self.token = f"https://{authority['listen']}", made["secret"]
        self.home = tempfile.mkdtemp(dir=os.getcwd())
        with open(f"{self.home}/token", "w", encoding="ascii") as file:
            file.write(self.token)
        words = ["login", self.address, "--token-file", f"{self.home}/token", "--name", "lab"]
        self.hidden = {"HOME": self.home, "XDG_CONFIG_HOME": "", "GPOOL_SOCKET": ""}
        environment = {**os.environ, **self.hidden}
        run_gpool(*words, "--fingerprint", authority["fingerprint"], env=environment)

    def test_a_context_leads_to_a_server_on_the_network(self):
        code = (
            "import gpool, sys\n"
            "for options in ({}, {'context': 'lab'}, {'server': sys.argv[1]}):\n"
            "    client = gpool.Client(**options)\n"
            "    job = client.submit(['sh', '-c', 'pwd; echo $ONE $TWO'], directory='/',\n"
            "                        env={'ONE': '1'})\n"
            "    print(client.wait(job['id'])['state'], client.logs(job['id']).split(),\n"
            "          list(client.follow(job['id']))[0], client.server == sys.argv[1])\n"
        )
        done = python(code, self.address, TWO="2", **self.hidden)
        self.assertEqual(done.stdout, "succeeded ['/', '1'] / True\n" * 3, done.stderr)

    def test_other_tokens_and_certificates_are_refused(self):
        code = (
            "import gpool, sys\n"
            "try: gpool.Client(sys.argv[1]).version()\n"
            "except gpool.GpoolError as error: print(type(error).__name__, error)\n"
        )
        bad = python(code, self.address, GPOOL_TOKEN="gp_other", **self.hidden)
        self.assertIn("Refused", bad.stdout, bad.stderr)
        other = python(code, self.address, **{**self.hidden, "GPOOL_TOKEN": "x", "HOME": "/none"})
        self.assertIn("is not trusted", other.stdout, other.stderr)
        self.assertIn("GP0311", other.stdout)
        none = python(code, self.address, **{**self.hidden, "HOME": "/none"})
        self.assertIn("no context is for", none.stdout, none.stderr)
        os.chmod(f"{self.home}/.config/gpool/contexts.toml", 0o644)
        open_file = python(code, self.address, **self.hidden)
        self.assertIn("chmod 600", open_file.stdout, open_file.stderr)


if __name__ == "__main__":
    unittest.main()
