// Writes to an address without memory, which is Xid 31.
#include <stdio.h>

__global__ void illegal() { *(volatile int *)0xdead0000 = 1; }

int main() {
    illegal<<<1, 1>>>();
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
}
