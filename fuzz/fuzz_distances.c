/* fuzz_distances.c: the calls of fuzz_attention.c under rotations that depend on query and key together or on the length in
 * use: ReRoPE, Self-Extend, Dual Chunk Attention, dynamic scalings, xPos and the temperature (fuzz_pair_rotation.h). */
#include "fuzz_attention_call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_attention_judge(data, size, 1);
    return 0;
}
