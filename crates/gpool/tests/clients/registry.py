"""A registry of one image, read-only, by the distribution protocol.

Usage: registry.py LAYER GATE. Prints its port. The image has one layer, an archive of tar, which is
sent once the file GATE exists. If the first line of standard input is USER:PASSWORD, each request
needs this login.
"""

import base64
import hashlib
import http.server
import json
import platform
import sys
import time
from pathlib import Path

layer, gate = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
login = sys.stdin.readline().strip()
wanted = login and "Basic " + base64.b64encode(login.encode()).decode()
blobs = {}


def described(body, kind):
    digest = "sha256:" + hashlib.sha256(body).hexdigest()
    blobs[digest] = body
    return {"mediaType": "application/vnd.oci.image." + kind, "digest": digest, "size": len(body)}


archive = described(layer, "layer.v1.tar")
image = {
    "architecture": {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "amd64"),
    "os": "linux",
    "config": {},
    "rootfs": {"type": "layers", "diff_ids": [archive["digest"]]},
    "history": [{"created": "2026-01-01T00:00:00Z"}],
}
manifest = {
    "schemaVersion": 2,
    "mediaType": "application/vnd.oci.image.manifest.v1+json",
    "config": described(json.dumps(image).encode(), "config.v1+json"),
    "layers": [archive],
}
manifest = described(json.dumps(manifest).encode(), "manifest.v1+json")


class Registry(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, with_body):
        if wanted and self.headers.get("Authorization") != wanted:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="test"')
            self.send_header("Content-Length", "0")
            return self.end_headers()
        kind, _, name = self.path.rpartition("/")
        if self.path.rstrip("/") == "/v2":
            return self.send(b"{}", "application/json", with_body)
        if kind == "/v2/tool/manifests":
            digest, form = manifest["digest"], manifest["mediaType"]
        elif kind == "/v2/tool/blobs" and name in blobs:
            digest, form = name, "application/octet-stream"
            while with_body and not gate.exists():
                time.sleep(0.05)
        else:
            return self.send_error(404)
        self.send(blobs[digest], form, with_body, digest)

    def send(self, body, form, with_body, digest=None):
        self.send_response(200)
        self.send_header("Content-Type", form)
        self.send_header("Content-Length", str(len(body)))
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
print(server.server_address[1], flush=True)
server.serve_forever()
