/* make_quant_blocks.h: random blocks of ggml's formats. */
#ifndef GYRE_TESTS_MAKE_QUANT_BLOCKS_H
#define GYRE_TESTS_MAKE_QUANT_BLOCKS_H
#include "kernels/quant_blocks.h"
#include "numbers.h"

#include <string.h>

typedef struct quant_format {
    int64_t numbers, bytes; /* of a block */
    int64_t scale, min;     /* offsets of the f16 scales; min -1 = none */
    int ggml_type;          /* in a GGUF */
} quant_format;
enum { QUANT_FORMATS = 5 };
static const quant_format quant_formats[QUANT_FORMATS] = {{GYRE_Q_BLOCK, GYRE_Q8_0_BYTES, GYRE_Q_SCALE, -1, 8},
                                                          {GYRE_Q_BLOCK, GYRE_Q4_0_BYTES, GYRE_Q_SCALE, -1, 2},
                                                          {GYRE_QK_K, GYRE_Q4_K_BYTES, GYRE_Q_SCALE, GYRE_K_DMIN, 12},
                                                          {GYRE_QK_K, GYRE_Q5_K_BYTES, GYRE_Q_SCALE, GYRE_K_DMIN, 13},
                                                          {GYRE_QK_K, GYRE_Q6_K_BYTES, GYRE_Q6_K_SCALE, -1, 14}};

/* Random bytes, with scales of at most `scale`. */
static inline void fill_quant_blocks(test_random *random, const quant_format *format, double scale, int64_t count,
                                     unsigned char *blocks) {
    for (int64_t i = 0; i < count * format->bytes; i++)
        blocks[i] = (unsigned char)(test_next(random) >> 32);
    for (int64_t i = 0; i < count; i++) {
        uint16_t half;
        test_put(&half, GYRE_DTYPE_F16, 0, test_uniform(random) * scale);
        memcpy(blocks + i * format->bytes + format->scale, &half, sizeof half);
        test_put(&half, GYRE_DTYPE_F16, 0, test_uniform(random) * scale);
        if (format->min >= 0) memcpy(blocks + i * format->bytes + format->min, &half, sizeof half);
    }
}

#endif
