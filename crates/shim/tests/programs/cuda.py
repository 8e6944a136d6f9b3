"""Executes some commands of cuda.c with ctypes, as frameworks for Python do."""

import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def execute(word, a):
    out = ctypes.c_uint64()
    size = ctypes.c_size_t(a)
    if word == "init":
        return [cuda.cuInit(0)]
    if word == "context":
        code = cuda.cuDevicePrimaryCtxRetain(ctypes.byref(out), a)
        return [code or cuda.cuCtxSetCurrent(out)]
    if word == "alloc":
        return [cuda.cuMemAlloc_v2(ctypes.byref(out), size), out.value]
    if word == "free":
        return [cuda.cuMemFree_v2(ctypes.c_uint64(a))]
    if word == "info":
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        code = cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return [code, free.value, total.value]
    return ["unknown"]


for line in sys.stdin:
    word, *numbers = line.split()
    print(*execute(word, int(numbers[0]) if numbers else 0), flush=True)
