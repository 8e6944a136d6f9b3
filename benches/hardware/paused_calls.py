"""Shows which calls of the driver survive while their process is checkpointed.

    python3 paused_calls.py

It needs a GPU and a driver since 570. Each call runs in a process of its own, which is
checkpointed before the call and restored after it. Without gpool's library, a call that "ended" its
process must be kept from the driver during a pause (crates/shim/front/gate.rs).
"""

import ctypes
import subprocess
import sys
import time

ARGS = (ctypes.c_char * 64)()


def calls(cuda):
    """Prepares a stream, an event and memory; returns each call by its name."""
    context, stream, event = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    address, word, other = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
    time_ms, text, size = ctypes.c_float(), (ctypes.c_char * 64)(), ctypes.c_size_t(64)
    cuda.cuInit(0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    cuda.cuCtxSetCurrent(context)
    cuda.cuStreamCreate(ctypes.byref(stream), 1)
    cuda.cuEventCreate(ctypes.byref(event), 0)
    cuda.cuEventRecord(event, stream)
    cuda.cuStreamSynchronize(stream)
    cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 20))
    word_at, other_at = ctypes.byref(word), ctypes.byref(other)
    return {
        "cuCtxSynchronize": (),
        "cuEventElapsedTime": (ctypes.byref(time_ms), event, event),
        "cuEventQuery": (event,),
        "cuEventRecord": (event, stream),
        "cuEventSynchronize": (event,),
        "cuMemAlloc_v2": (word_at, size),
        "cuMemGetInfo_v2": (word_at, other_at),
        "cuMemcpyDtoH_v2": (text, address, size),
        "cuPointerGetAttribute": (word_at, 2, address),
        "cuStreamIsCapturing": (stream, word_at),
        "cuStreamQuery": (stream,),
        "cuStreamSynchronize": (stream,),
        "cuStreamWaitEvent": (stream, event, 0),
    }


def child(name):
    cuda = ctypes.CDLL("libcuda.so.1")
    arguments = calls(cuda)
    print("\n".join(arguments) if name == "list" else "ready", flush=True)
    if name != "list":
        sys.stdin.readline()
        print(getattr(cuda, name)(*arguments[name]), flush=True)
        sys.stdin.readline()


def start(name):
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, __file__, name], stdin=pipe, stdout=pipe, text=True)


def main():
    names = start("list").communicate()[0].split()
    children = [start(name) for name in names]
    for process in children:
        process.stdout.readline()
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuInit(0)
    for process in children:
        for step in (cuda.cuCheckpointProcessLock, cuda.cuCheckpointProcessCheckpoint):
            assert step(process.pid, ARGS) == 0
        process.stdin.write("\n")
        process.stdin.flush()
    time.sleep(3)
    for name, process in zip(names, children):
        if process.poll() is not None:
            print(f"{name:24} ended its process, status {process.returncode}")
            continue
        restored = [
            step(process.pid, ARGS)
            for step in (cuda.cuCheckpointProcessRestore, cuda.cuCheckpointProcessUnlock)
        ]
        code = process.stdout.readline().strip() if restored == [0, 0] else "not restored"
        print(f"{name:24} survived, and returned {code}")
        process.kill()


child(sys.argv[1]) if len(sys.argv) > 1 else main()
