/* test_repositioned.c: real positions of a network (RePo): their error where they are large, and their bits however the rows
 * are cut. */
#include "kernels/kernels.h"
#include "model/ops/float_buffer.h"
#include "model/parts/head_parts.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 512, UNITS = WIDTH / 8, KEYS = 2, HEADS = 4, DIM = 8, ROWS = 24, QK = (HEADS + KEYS) * DIM };

typedef struct layer {
    gyre_encoding *encoding;
    float *numbers, *x, *qk; /* qk [ROWS][QK] */
    gyre_trained_heads heads;
} layer;

/* Positions of some thousands: hidden units near 1, and weights of `scale`. */
static layer make_layer(double scale) {
    const int64_t count = 2 * UNITS * WIDTH + KEYS * UNITS;
    gyre_config config = test_rope_config(DIM, GYRE_LAYOUT_INTERLEAVED);
    test_random random = {7};
    layer l = {test_encoding(&config),
               gyre_alloc_floats(count),
               gyre_alloc_floats(ROWS * WIDTH),
               gyre_alloc_floats(ROWS * QK),
               {.part = &gyre_head_part_repositioned}};
    for (int64_t i = 0; i < count; i++)
        l.numbers[i] = (float)(test_uniform(&random) * (i < 2 * UNITS * WIDTH ? 3 / sqrt(WIDTH) : scale));
    for (int64_t i = 0; i < ROWS * WIDTH; i++)
        l.x[i] = (float)(2 * test_uniform(&random));
    l.heads.model_dim = WIDTH;
    l.heads.heads = HEADS;
    l.heads.kv_heads = KEYS;
    l.heads.pairs = DIM / 2;
    l.heads.layout = GYRE_LAYOUT_INTERLEAVED;
    l.heads.encoding = l.encoding;
    l.heads.data = l.numbers;
    return l;
}

static void free_layer(layer *l) {
    gyre_encoding_free(l->encoding);
    free(l->numbers);
    free(l->x);
    free(l->qk);
}

/* Every pair is 1 at first, so it becomes the cosine and the sine of its angle. */
static void rotate_rows(const layer *l, int64_t first, int64_t rows) {
    const gyre_positions positions = {.base = first};
    float *qk = l->qk + first * QK, *memory = gyre_alloc_floats(gyre_part_scratch(&l->heads, rows, 1));
    const gyre_part_work work = {gyre_kernels_select(), NULL, memory};
    gyre_head_views views = {.x = gyre_dense(l->x + first * WIDTH, GYRE_DTYPE_F32, 1, rows, 1, WIDTH)};
    gyre_error err = {0, ""};
    for (int64_t i = 0; i < rows * QK; i++)
        qk[i] = i % 2 == 0;
    for (int i = 0; i < 2; i++) {
        views.in[i] = gyre_dense(qk + (i ? HEADS * DIM : 0), GYRE_DTYPE_F32, 1, rows, i ? KEYS : HEADS, DIM);
        views.in[i].stride[0] = rows * QK;
        views.in[i].stride[1] = QK;
        views.out[i] = views.in[i];
    }
    if (l->heads.part->forward(&l->heads, &positions, &views, &work, &err)) fail_msg("%s", err.text);
    free(memory);
}

/* out = the position of a row in a key head; *size = the sum of the magnitudes of its terms. */
static double position_of(const layer *l, int64_t row, int64_t key, double *size) {
    const float *x = l->x + row * WIDTH, *w = l->numbers + 2 * UNITS * WIDTH + key * UNITS;
    double z = *size = 0;
    for (int64_t j = 0; j < UNITS; j++) {
        double gate = 0, content = 0;
        for (int64_t i = 0; i < WIDTH; i++) {
            gate += (double)l->numbers[j * WIDTH + i] * (double)x[i];
            content += (double)l->numbers[(UNITS + j) * WIDTH + i] * (double)x[i];
        }
        const double term = (double)w[j] * gate / (1 + exp(-gate)) * content;
        z += term;
        *size += fabs(term);
    }
    return z;
}

static void error_of_large_positions(void **state) {
    (void)state;
    layer l = make_layer(1500);
    double most = 0, largest = 0;
    rotate_rows(&l, 0, ROWS);
    for (int64_t row = 0; row < ROWS; row++)
        for (int64_t h = 0; h < HEADS + KEYS; h++) {
            double size;
            const double z = position_of(&l, row, h < HEADS ? h / (HEADS / KEYS) : h - HEADS, &size);
            const float *pair = l.qk + row * QK + h * DIM;
            const double off = remainder(atan2((double)pair[1], (double)pair[0]) - z, 2 * acos(-1));
            most = fmax(most, fabs(off) / size);
            largest = fmax(largest, fabs(z));
        }
    assert_true(largest > 4000);
    if (!(most < ldexp(1, -21))) fail_msg("%g of the terms of a position", most);
    free_layer(&l);
}

static void same_bits_row_by_row(void **state) {
    (void)state;
    layer l = make_layer(10);
    float whole[ROWS * QK];
    rotate_rows(&l, 0, ROWS);
    memcpy(whole, l.qk, sizeof whole);
    for (int64_t piece = 1; piece < ROWS; piece += 6) {
        for (int64_t first = 0; first < ROWS; first += piece)
            rotate_rows(&l, first, piece < ROWS - first ? piece : ROWS - first);
        assert_memory_equal(l.qk, whole, sizeof whole);
    }
    free_layer(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(error_of_large_positions), cmocka_unit_test(same_bits_row_by_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
