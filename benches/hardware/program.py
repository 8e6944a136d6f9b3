"""A program of a job: reads commands from NAME.in, writes results to NAME.out, a JSON line each.

A command is a Python expression of the functions below. checks.py starts it and sends commands.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

FOLDER, NAME = os.path.dirname(os.path.abspath(__file__)), sys.argv[1]
BASE = os.path.join(FOLDER, NAME)
GIB = 1 << 30
held = {}
torch = None


def load():
    """Imports PyTorch, and returns the sizes that it sees."""
    global torch
    import torch as module

    torch = module
    signal.signal(signal.SIGUSR1, lambda *_: empty())
    free, total = torch.cuda.mem_get_info()
    return {"free": free / GIB, "total": total / GIB, "model": torch.cuda.get_device_name(0)}


def hold(gib):
    """Fills memory with random numbers, and returns their sum."""
    numbers = torch.empty(int(gib * GIB) // 8, dtype=torch.int64, device="cuda")
    held["memory"] = numbers.random_(0, 1 << 40)
    empty()
    return total()


def cache(gib):
    """Leaves memory in the cache of PyTorch."""
    torch.empty(int(gib * GIB), dtype=torch.uint8, device="cuda")
    return True


def total():
    return int(held["memory"].sum().item())


def drop():
    del held["memory"]
    return empty()


def empty():
    torch.cuda.empty_cache()
    return True


def fill():
    """Allocates as much as it gets, and frees it; returns GiB."""
    parts = []
    try:
        while True:
            parts.append(torch.empty(GIB // 4, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        n_parts = len(parts)
    del parts
    empty()
    return n_parts / 4


def fill_again(seconds):
    end, most = time.time() + seconds, 0
    while time.time() < end:
        most = max(most, fill())
    return most


def fill_managed():
    import cupy

    parts = []
    try:
        while True:
            parts.append(cupy.cuda.malloc_managed(GIB // 4))
    except cupy.cuda.runtime.CUDARuntimeError:
        return len(parts) / 4


def multiply(seconds):
    """Multiplies matrices, and returns TFLOP/s."""
    size, n_products, end = 8192, 0, time.time() + seconds
    matrix = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    while time.time() < end:
        for _ in range(20):
            matrix @ matrix
        torch.cuda.synchronize()
        n_products += 20
    return n_products * 2 * size**3 / seconds / 1e12


def synchronize(seconds):
    """Synchronizes all the time; returns the longest call."""
    end, longest = time.time() + seconds, 0
    ones = torch.ones(1 << 20, device="cuda")
    while time.time() < end:
        begin = time.time()
        torch.cuda.synchronize()
        ones += 1
        longest = max(longest, time.time() - begin)
        time.sleep(0.002)
    return longest


def beat(seconds):
    """Runs a small kernel twice a second, on a thread of its own."""

    def work():
        end = time.time() + seconds
        while time.time() < end:
            torch.ones(1, device="cuda").sum().item()
            time.sleep(0.5)

    threading.Thread(target=work, daemon=True).start()
    return True


def jax_hold():
    import jax
    import jax.numpy as jnp

    held["jax"] = jnp.arange(1 << 28, dtype=jnp.float32) * 0.5
    return {"sum": jax_total(), "pool": jax.devices()[0].memory_stats()["bytes_limit"] / GIB}


def jax_total():
    return float(held["jax"].sum())


def signal_me():
    """Asks for USR1 when the job may use less memory."""
    with open(os.path.join(os.environ["GPOOL_DIR"], "gpu-memory-signal"), "w") as file:
        file.write("USR1")
    return True


def run(program):
    done = subprocess.run([os.path.join(FOLDER, program)], text=True, capture_output=True)
    return (done.stdout + done.stderr).strip()


def run_alone(program):
    """Runs a program without gpool's library."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    file = os.path.join(FOLDER, program)
    return subprocess.run([file], text=True, capture_output=True, env=environment).stdout.strip()


def main():
    n_done = 0
    with open(BASE + ".out", "a") as out:
        while True:
            with open(BASE + ".in") as commands:
                lines = commands.read().split("\n")[n_done:-1]
            for line in lines:
                n_done += 1
                begin = time.time()
                try:
                    result = {"value": eval(line)}
                except Exception as error:
                    result = {"error": f"{type(error).__name__}: {error}"[:300]}
                out.write(json.dumps({**result, "took": time.time() - begin}) + "\n")
                out.flush()
            time.sleep(0.005)


main()
