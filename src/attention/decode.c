/* decode.c: to come. */
#include "attention/decode.h"
int gyre_decode_serves(const gyre_attention_plan *plan) {
    (void)plan;
    return 0;
}
size_t gyre_decode_bytes(const gyre_attention_plan *plan) {
    (void)plan;
    return 0;
}
int gyre_decode_part(const gyre_attention_plan *plan, int64_t item, int64_t first, int64_t count, char *memory,
                     gyre_partial *out) {
    (void)plan, (void)item, (void)first, (void)count, (void)memory, (void)out;
    return 0;
}
