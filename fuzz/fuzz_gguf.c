/* fuzz_gguf.c: reads any bytes as a GGUF file, for libFuzzer. */
#include "fuzz_reading.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_reading(data, size, "model.gguf");
    return 0;
}
