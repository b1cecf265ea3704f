/* fuzz_gguf_tensors.c: reads any bytes as a GGUF file with tensors, for libFuzzer. */
#include "fuzz_support.h"
#include "fuzz_tensor_store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_store(fuzz_file(data, size));
    return 0;
}
