/* fuzz_attention.c: legal calls of gyre_attention and gyre_attention_gradient, chosen by the bytes, against their
 * definitions in double: every scheme that acts inside attention (TAPA: fuzz_phases.h), with the gradients of its tables and
 * of sink logits.  Rotations by more than a position: fuzz_distances.c. */
#include "fuzz_attention_call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_attention_judge(data, size, 0);
    return 0;
}
