# Reports to gpool from the container of a Jupyter server, as watch.rs does on the host: the socket
# once the server answers, and then whether a kernel or terminal is busy.
import http.client
import json
import os
import socket
import sys
import time

PATH, PARENT = sys.argv[1], os.getppid()


class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(PATH)


def get(path):
    connection = Connection("localhost")
    try:
        connection.request("GET", path + "?no_track_activity=1")
        answer = connection.getresponse()
        return json.loads(answer.read()) if answer.status == 200 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def say(**report):
    print(json.dumps({"gpool": report}), flush=True)


def sessions():
    kernels = get("/api/kernels")
    return None if kernels is None else kernels + (get("/api/terminals") or [])


def main():
    while get("/api") is None:
        if os.getppid() != PARENT:
            return
        time.sleep(0.1)
    say(notebook={"socket": PATH})
    last, reported, reported_at = None, None, 0.0
    while os.getppid() == PARENT:
        found = sessions()
        if found is not None:
            latest = max((str(it.get("last_activity", "")) for it in found), default=None)
            has_moved = latest is not None and (last is None or latest > last)
            last = latest if has_moved else last
            is_busy = has_moved or any(it.get("execution_state") == "busy" for it in found)
            is_old = time.monotonic() - reported_at >= 60
            if is_busy != bool(reported) or (is_busy and is_old):
                say(busy=is_busy)
                reported, reported_at = is_busy, time.monotonic()
        time.sleep(2)


main()
