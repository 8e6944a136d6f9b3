"""A replica: listens on the port of its first argument; its second one is its revision, and a third
one its address."""

import http.server, os, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/stream":
            return self.stream()
        if self.path == "/echo":
            return self.echo()
        if self.path == "/health" and os.path.exists("unready"):
            return self.say(503, "not yet")
        if self.path == "/error":
            return self.say(500, "an error")
        if self.path == "/big":
            return self.big()
        if self.path == "/tokens":
            return self.say(200, '{"usage": {"completion_tokens": 6000}}')
        if self.path == "/slow":
            time.sleep(0.3)
        while self.path == "/wait" and not os.path.exists("enough"):
            time.sleep(0.02)
        self.say(200, f"job {os.environ['GPOOL_JOB_ID']} revision {sys.argv[2]}")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.say(200, f"{len(body)} bytes for {self.headers['x-forwarded-for']}")

    def echo(self):
        self.send_response(101)
        self.send_header("connection", "upgrade")
        self.send_header("upgrade", self.headers["upgrade"])
        self.end_headers()
        self.close_connection = True
        for line in self.rfile:
            self.wfile.write(line)

    def say(self, status, text):
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def stream(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        number = 0
        while not os.path.exists("enough"):
            number += 1
            self.chunk(f"data: {number}\n\n")
            time.sleep(0.02)
        self.chunk("data: [DONE]\n\n")
        self.chunk("")

    def big(self):
        self.send_response(200)
        self.send_header("content-length", str(1 << 30))
        self.end_headers()
        self.connection.settimeout(1)
        self.close_connection = True
        try:
            for _ in range(1 << 10):
                self.wfile.write(b"x" * (1 << 20))
        except TimeoutError:
            open("blocked", "w").close()

    def chunk(self, text):
        self.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())

    def log_message(self, *words):
        pass

class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128

address = (sys.argv[3:] or ["127.0.0.1"])[0]
Server((address, int(sys.argv[1])), Handler).serve_forever()
