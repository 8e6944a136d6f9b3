// Executes commands from standard input with the CUDA driver, one a line, and prints a line with
// the result of each. The first argument says how it finds the driver's functions.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef uint64_t u64;

static void *library;
static int (*get_address)(const char *, void **, int, u64, void *);
static int per_thread;

static void *find(const char *name, const char *base) {
    void *found = NULL;
    if (get_address) {
        if (get_address(base, &found, 13000, per_thread ? 2 : 0, NULL) != 0) found = NULL;
    } else {
        found = dlsym(library, name);
    }
    return found;
}

// A call of a symbol: name with version, name without, types of the arguments.
#define CALL(name, base, types, ...) \
    ({ static int (*call_) types; if (!call_) call_ = find(name, base); call_ ? call_(__VA_ARGS__) : -1; })

typedef struct { int type, handle_types, location_type, location; u64 rest[4]; } Prop;
typedef struct { int type, handle_types, location_type, location; u64 rest[9]; u64 access, n_access, bytes, address; } GraphNode;

// Allocates and frees at random, and reports the refusals.
static void churn(u64 bytes, int n) {
    u64 held[64] = {0};
    int n_refused = 0;
    for (int i = 0; i < n; i++) {
        u64 *place = &held[rand() % 64];
        if (*place) {
            CALL("cuMemFree_v2", "cuMemFree", (u64), *place);
            *place = 0;
        } else if (CALL("cuMemAlloc_v2", "cuMemAlloc", (u64 *, size_t), place, bytes) != 0) {
            *place = 0;
            n_refused++;
        }
    }
    for (int i = 0; i < 64; i++)
        if (held[i]) CALL("cuMemFree_v2", "cuMemFree", (u64), held[i]);
    printf("%d\n", n_refused);
}

static void *synchronize(void *unused) {
    (void)unused;
    int code = CALL("cuCtxSynchronize", "cuCtxSynchronize", (void));
    printf("synchronized %d\n", code);
    fflush(stdout);
    return NULL;
}

typedef struct { u64 *sum, bytes, limit; int n, n_above, n_refused; } Race;

// Allocates and frees at random. `sum` counts the memory of all threads of all processes, and never
// too much of it: an allocation is added after it, and subtracted before its end.
static void *race(void *argument) {
    Race *it = argument;
    u64 held[8] = {0}, context = 0;
    unsigned seed = (unsigned)(uintptr_t)&held;
    CALL("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", (u64 *, int), &context, 0);
    CALL("cuCtxSetCurrent", "cuCtxSetCurrent", (u64), context);
    for (int i = 0; i < it->n; i++) {
        u64 *place = &held[rand_r(&seed) % 8];
        if (*place) {
            __atomic_fetch_sub(it->sum, it->bytes, __ATOMIC_SEQ_CST);
            CALL("cuMemFree_v2", "cuMemFree", (u64), *place);
            *place = 0;
        } else if (CALL("cuMemAlloc_v2", "cuMemAlloc", (u64 *, size_t), place, it->bytes) != 0) {
            *place = 0;
            it->n_refused++;
        } else if (__atomic_add_fetch(it->sum, it->bytes, __ATOMIC_SEQ_CST) > it->limit) {
            it->n_above++;
        }
    }
    for (int i = 0; i < 8; i++)
        if (held[i]) {
            __atomic_fetch_sub(it->sum, it->bytes, __ATOMIC_SEQ_CST);
            CALL("cuMemFree_v2", "cuMemFree", (u64), held[i]);
        }
    return NULL;
}

// Two threads race with those of other processes; the file with the sum comes from the environment.
static void race_all(u64 bytes, u64 limit, int n) {
    int file = open(getenv("RACE_SUM"), O_RDWR);
    u64 *sum = mmap(NULL, 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    pthread_t threads[2];
    Race races[2];
    for (int i = 0; i < 2; i++) {
        races[i] = (Race){sum, bytes, limit, n, 0, 0};
        pthread_create(&threads[i], NULL, race, &races[i]);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    printf("%d %d\n", races[0].n_above + races[1].n_above, races[0].n_refused + races[1].n_refused);
}

static int execute(const char *word, u64 a, u64 b, const char *text) {
    u64 x = 0, y = 0;
    int code;
    if (!strcmp(word, "init")) printf("%d\n", CALL("cuInit", "cuInit", (unsigned), 0));
    else if (!strcmp(word, "context")) {
        code = CALL("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", (u64 *, int), &x, (int)a);
        if (code == 0) code = CALL("cuCtxSetCurrent", "cuCtxSetCurrent", (u64), x);
        printf("%d\n", code);
    } else if (!strcmp(word, "reset")) {
        printf("%d\n", CALL("cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxReset", (int), (int)a));
    } else if (!strcmp(word, "other-context")) {
        code = CALL("cuCtxCreate_v2", "cuCtxCreate", (u64 *, unsigned, int), &x, 0, (int)a);
        printf("%d %lu\n", code, x);
    } else if (!strcmp(word, "destroy-context")) {
        printf("%d\n", CALL("cuCtxDestroy_v2", "cuCtxDestroy", (u64), a));
    } else if (!strcmp(word, "alloc")) {
        code = CALL("cuMemAlloc_v2", "cuMemAlloc", (u64 *, size_t), &x, a);
        printf("%d %lu\n", code, x);
    } else if (!strcmp(word, "free")) printf("%d\n", CALL("cuMemFree_v2", "cuMemFree", (u64), a));
    else if (!strcmp(word, "pitch")) {
        code = CALL("cuMemAllocPitch_v2", "cuMemAllocPitch", (u64 *, u64 *, u64, u64, unsigned), &x, &y, a, b, 4);
        printf("%d %lu %lu\n", code, x, y);
    } else if (!strcmp(word, "managed")) {
        code = CALL("cuMemAllocManaged", "cuMemAllocManaged", (u64 *, size_t, unsigned), &x, a, 1);
        printf("%d %lu\n", code, x);
    } else if (!strcmp(word, "async")) {
        code = CALL("cuMemAllocAsync", "cuMemAllocAsync", (u64 *, size_t, u64), &x, a, 0);
        printf("%d %lu\n", code, x);
    } else if (!strcmp(word, "free-async")) {
        printf("%d\n", CALL("cuMemFreeAsync", "cuMemFreeAsync", (u64, u64), a, 0));
    } else if (!strcmp(word, "keep-pool")) {
        CALL("cuDeviceGetDefaultMemPool", "cuDeviceGetDefaultMemPool", (u64 *, int), &x, 0);
        printf("%d\n", CALL("cuMemPoolSetAttribute", "cuMemPoolSetAttribute", (u64, int, u64 *), x, 4, &a));
    } else if (!strcmp(word, "create")) {
        Prop prop = {1, 0, (int)b, 0, {0}};
        code = CALL("cuMemCreate", "cuMemCreate", (u64 *, size_t, Prop *, u64), &x, a, &prop, 0);
        printf("%d %lu\n", code, x);
    } else if (!strcmp(word, "release")) printf("%d\n", CALL("cuMemRelease", "cuMemRelease", (u64), a));
    else if (!strcmp(word, "map")) {
        code = CALL("cuMemAddressReserve", "cuMemAddressReserve", (u64 *, size_t, size_t, u64, u64), &x, b, 0, 0, 0);
        if (code == 0) code = CALL("cuMemMap", "cuMemMap", (u64, size_t, size_t, u64, u64), x, b, 0, a, 0);
        printf("%d %lu\n", code, x);
    } else if (!strcmp(word, "unmap")) printf("%d\n", CALL("cuMemUnmap", "cuMemUnmap", (u64, size_t), a, b));
    else if (!strcmp(word, "retain")) {
        code = CALL("cuMemRetainAllocationHandle", "cuMemRetainAllocationHandle", (u64 *, u64), &x, a);
        printf("%d %lu\n", code, x);
    } else if (!strcmp(word, "array")) {
        struct { u64 width, height; int format, channels; } it = {a, b, 0x20, 4};
        code = CALL("cuArrayCreate_v2", "cuArrayCreate", (u64 *, void *), &x, &it);
        printf("%d %lu\n", code, x);
    } else if (!strcmp(word, "destroy-array")) printf("%d\n", CALL("cuArrayDestroy", "cuArrayDestroy", (u64), a));
    else if (!strcmp(word, "graph")) {
        GraphNode node = {1, 0, 1, 0, {0}, 0, 0, a, 0};
        code = CALL("cuGraphCreate", "cuGraphCreate", (u64 *, int), &x, 0);
        if (code == 0) code = CALL("cuGraphAddMemAllocNode", "cuGraphAddMemAllocNode", (u64 *, u64, u64, u64, GraphNode *), &y, x, 0, 0, &node);
        if (code == 0) code = CALL("cuGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags", (u64 *, u64, u64), &y, x, 0);
        if (code == 0) code = CALL("cuGraphLaunch", "cuGraphLaunch", (u64, u64), y, 0);
        printf("%d\n", code);
    } else if (!strcmp(word, "trim-graphs")) printf("%d\n", CALL("cuDeviceGraphMemTrim", "cuDeviceGraphMemTrim", (int), 0));
    else return 0;
    return 1;
}

// The memory of a device as NVML shows it: total, free, used.
static void nvml_memory(unsigned ix) {
    struct { unsigned version; u64 total, reserved, free, used; } memory = {.version = 0x2000028};
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW), *device = NULL;
    if (!nvml) {
        printf("no library: %s\n", dlerror());
        return;
    }
    int code = ((int (*)(void))dlsym(nvml, "nvmlInit_v2"))();
    if (code == 0) code = ((int (*)(unsigned, void **))dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2"))(ix, &device);
    if (code == 0) code = ((int (*)(void *, void *))dlsym(nvml, "nvmlDeviceGetMemoryInfo_v2"))(device, &memory);
    printf("%d %lu %lu %lu\n", code, memory.total, memory.free, memory.used);
}

static void execute_rest(const char *word, u64 a, u64 b, const char *text) {
    u64 x = 0, y = 0;
    char buffer[4096] = {0};
    int code;
    pthread_t thread;
    if (!strcmp(word, "info")) {
        code = CALL("cuMemGetInfo_v2", "cuMemGetInfo", (u64 *, u64 *), &x, &y);
        printf("%d %lu %lu\n", code, x, y);
    } else if (!strcmp(word, "total")) {
        code = CALL("cuDeviceTotalMem_v2", "cuDeviceTotalMem", (u64 *, int), &x, (int)a);
        printf("%d %lu\n", code, x);
    } else if (!strcmp(word, "write")) {
        printf("%d\n", CALL("cuMemcpyHtoD_v2", "cuMemcpyHtoD", (u64, const void *, size_t), a, text, strlen(text) + 1));
    } else if (!strcmp(word, "read")) {
        code = CALL("cuMemcpyDtoH_v2", "cuMemcpyDtoH", (void *, u64, size_t), buffer, a, b);
        printf("%d %s\n", code, buffer);
    } else if (!strcmp(word, "launch")) {
        code = CALL("cuLaunchKernel", "cuLaunchKernel", (u64, int, int, int, int, int, int, int, u64, void **, void **), 1, 1, 1, 1, 1, 1, 1, 0, 0, NULL, NULL);
        printf("%d\n", code);
    } else if (!strcmp(word, "synchronize")) {
        printf("%d\n", CALL("cuStreamSynchronize", "cuStreamSynchronize", (u64), 0));
    } else if (!strcmp(word, "query")) {
        printf("%d\n", CALL("cuStreamQuery", "cuStreamQuery", (u64), 0));
    } else if (!strcmp(word, "query-event")) {
        printf("%d\n", CALL("cuEventQuery", "cuEventQuery", (u64), 1));
    } else if (!strcmp(word, "synchronize-apart")) {
        pthread_create(&thread, NULL, synchronize, NULL);
        pthread_detach(thread);
        printf("started\n");
    } else if (!strcmp(word, "nvml")) nvml_memory((unsigned)a);
    else if (!strcmp(word, "visible")) printf("%s\n", getenv("CUDA_VISIBLE_DEVICES"));
    else if (!strcmp(word, "ipc")) {
        printf("%d\n", CALL("cuIpcGetMemHandle", "cuIpcGetMemHandle", (void *, u64), buffer, a));
    } else if (!strcmp(word, "churn")) churn(a, (int)b);
    else if (!strcmp(word, "race")) race_all(a, b, 15000);
    else if (!strcmp(word, "fork")) {
        // The child uses the driver and ends; the parent's memory must stay charged.
        pid_t child = fork();
        if (child == 0) {
            CALL("cuMemFree_v2", "cuMemFree", (u64), a);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        printf("0\n");
    } else printf("unknown\n");
}

int main(int n, char **arguments) {
    const char *route = n > 1 ? arguments[1] : "dlsym";
    // A program that is linked to the driver has its symbols without this.
    library = strcmp(route, "linked") ? dlopen("libcuda.so.1", RTLD_NOW) : RTLD_DEFAULT;
    if (!library && strcmp(route, "linked")) {
        printf("no library: %s\n", dlerror());
        return 1;
    }
    if (!strcmp(route, "get-address") || !strcmp(route, "per-thread")) get_address = dlsym(library, "cuGetProcAddress_v2");
    per_thread = !strcmp(route, "per-thread");
    char line[1024];
    while (fgets(line, sizeof line, stdin)) {
        char word[64] = {0}, text[512] = {0};
        u64 a = 0, b = 0;
        if (sscanf(line, "%63s %lu %lu", word, &a, &b) < 1) continue;
        sscanf(line, "%*s %*s %511s", text);
        if (!execute(word, a, b, text)) execute_rest(word, a, b, text);
        fflush(stdout);
    }
    return 0;
}
