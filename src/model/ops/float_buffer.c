#include "model/ops/float_buffer.h"

#include <stdlib.h>
#include <string.h>

float *gyre_alloc_floats(int64_t count) {
    if (count < 0 || (uint64_t)count > SIZE_MAX / sizeof(float) - 64) return NULL;
    size_t bytes = ((size_t)count * sizeof(float) + 63) / 64 * 64;
    float *memory = aligned_alloc(64, bytes ? bytes : 64);
    if (memory) memset(memory, 0, bytes);
    return memory;
}
