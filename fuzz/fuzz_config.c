/* fuzz_config.c: reads any bytes as a config.json, for libFuzzer. */
#include "fuzz_reading.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_reading(data, size, "config.json");
    return 0;
}
