/* angle_table.c: rows of cos and sin, filled in by blocks of consecutive positions.
 *
 *     positions    0 1 2 ... 63 | 64 65 ... 127 | 128 ...
 *                  anchor 0       anchor 64       anchor 128
 *
 * Position m = anchor + j, j < BLOCK, has angle anchor x f + j x f.  The cos and sin of the steps j x f are stored, those of
 * the anchor are computed, and a complex product gives the row.  In double the product is off by a few 2^-53, so it rarely
 * rounds to a different float than the directly computed cos and sin.  Rows where it might are computed directly. */
#include "core/rotation/angle_table.h"
#include "core/encoding.h"
#include "kernels/places/place_kernels.h"
#include "util/error.h"

#include "core/huge_pages.h"
#include "core/rotation/angles.h"
#include "core/rotation/block_state.h"

#include <stdint.h>
#include <string.h>

enum { BLOCK = 64 };

typedef struct gyre_angle_table {
    int64_t rows, pairs;
    double *step;            /* [2][BLOCK][pairs]: cos, then sin of j x f */
    gyre_block_state *state; /* [1 + 2 blocks]: of the steps, of each block in `row`, of each block in `rows_f64` */
    float *row;              /* [rows][2][pairs] */
    double *rows_f64;        /* the same in double, or NULL */
} gyre_angle_table;

static size_t blocks_of(int64_t rows) {
    return (size_t)((rows + BLOCK - 1) / BLOCK);
}

/* One allocation: the struct, steps, states, rows of floats, rows of doubles. */
gyre_status gyre_angle_table_make(gyre_encoding *encoding, int64_t pairs, int64_t rows, gyre_error *err) {
    enum { ALIGN = 64 };
    const size_t head = (sizeof(gyre_angle_table) + ALIGN - 1) / ALIGN * ALIGN;
    const size_t steps = 2 * (size_t)BLOCK * (size_t)pairs * sizeof(double);
    const size_t states = (1 + 2 * blocks_of(rows) + ALIGN - 1) / ALIGN * ALIGN;
    /* A row of doubles takes the space of two rows of floats; only with malloc, where untouched memory costs nothing. */
    const size_t row = 2 * (size_t)pairs * sizeof(float), all = encoding->uses_malloc ? 3 * row : row;
    if ((uint64_t)rows > (SIZE_MAX / 2 - head - steps - states) / all)
        return gyre_fail(err, GYRE_ENOMEM, "rope.table_positions: more than memory can hold (gyre_config)");
    char *memory = gyre_encoding_allocate(encoding, (int64_t)(head + steps + states + (size_t)rows * all), 1, err);
    if (!memory) return GYRE_ENOMEM;
    gyre_angle_table *table = (gyre_angle_table *)(void *)memory;
    *table = (gyre_angle_table){rows,
                                pairs,
                                (double *)(void *)(memory + head),
                                (gyre_block_state *)(memory + head + steps),
                                (float *)(void *)(memory + head + steps + states),
                                NULL};
    if (encoding->uses_malloc) table->rows_f64 = (double *)(void *)(memory + head + steps + states + (size_t)rows * row);
    for (size_t i = 0; i <= 2 * blocks_of(rows); i++)
        gyre_block_init(&table->state[i]);
    gyre_huge_pages_advise(table->row, (size_t)rows * all);
    encoding->angles = table;
    return GYRE_OK;
}

void gyre_angle_table_make_default(gyre_encoding *encoding, int64_t pairs, int64_t length) {
    const int64_t default_rows = 32768, max_bytes = (int64_t)64 << 20, row = 2 * pairs * (int64_t)sizeof(float);
    int64_t rows = length == 0 ? default_rows : length;
    if (rows > max_bytes / row) rows = max_bytes / row;
    if (rows > 0 && encoding->uses_malloc) (void)gyre_angle_table_make(encoding, pairs, rows, NULL);
}

/* -- steps -- */
size_t gyre_angle_steps_bytes(int64_t pairs) {
    return (size_t)pairs * (sizeof(gyre_frequency) + 2 * BLOCK * sizeof(double));
}

static void fill_steps(const gyre_frequency *frequency, int64_t pairs, double *step) {
    for (int64_t j = 0; j < BLOCK; j++)
        for (int64_t i = 0; i < pairs; i++)
            gyre_angle(frequency[i], (double)j, &step[j * pairs + i], &step[(BLOCK + j) * pairs + i]);
}

void gyre_angle_steps_make(const gyre_encoding *encoding, int64_t length, void *memory, gyre_angle_steps *out) {
    gyre_frequency *own = memory;
    const gyre_angles angles = gyre_angles_of(encoding, GYRE_DIRECTION_FORWARD, length);
    const int64_t pairs = encoding->config.rope.dim / 2;
    for (int64_t first = 0, count; first < pairs; first += count) {
        count = pairs - first < GYRE_PAIR_CHUNK ? pairs - first : GYRE_PAIR_CHUNK;
        const gyre_frequency *some = gyre_angles_frequencies(&angles, first, count, own + first);
        if (some != own + first) memcpy(own + first, some, (size_t)count * sizeof *own);
    }
    double *step = (double *)(void *)(own + pairs);
    fill_steps(own, pairs, step);
    *out = (gyre_angle_steps){angles, own, step, pairs};
}

/* -- rows -- */
/* c[i], s[i] = cos and sin of pair first + i at position m, i < count. */
static void compute_row_f64(const gyre_encoding *encoding, int64_t m, int64_t first, int64_t count, double *c, double *s) {
    const gyre_angles angles = gyre_angles_of(encoding, GYRE_DIRECTION_FORWARD, 0);
    double position[GYRE_MAX_AXES];
    for (int a = 0; a < GYRE_MAX_AXES; a++)
        position[a] = (double)m;
    gyre_angles_f64(&angles, encoding->frequency + first, first, count, position, c, s);
}

/* Where the rows of positions anchor + from .. anchor + from + rows - 1, all in one block, are written. */
typedef struct block_target {
    int64_t anchor, from, rows, out_row_stride;
    float *cosine, *sine;
} block_target;

static void fill_row_directly(const gyre_angle_steps *steps, const block_target *to, int64_t j) {
    const double position = (double)(to->anchor + to->from + j);
    const double all[GYRE_MAX_AXES] = {position, position, position, position};
    double c[GYRE_PAIR_CHUNK], s[GYRE_PAIR_CHUNK];
    gyre_angle_walk walk = {0, 0};
    gyre_angles angles = steps->angles;
    angles.walk = &walk;
    for (int64_t first = 0, count; first < steps->pairs; first += count) {
        count = steps->pairs - first < GYRE_PAIR_CHUNK ? steps->pairs - first : GYRE_PAIR_CHUNK;
        gyre_angles_f64(&angles, steps->frequency + first, first, count, all, c, s);
        for (int64_t i = 0; i < count; i++) {
            to->cosine[j * to->out_row_stride + first + i] = (float)c[i];
            to->sine[j * to->out_row_stride + first + i] = (float)s[i];
        }
    }
}

static void fill_rows_by_steps(const gyre_angle_steps *steps, const block_target *to) {
    const gyre_encoding *encoding = steps->angles.encoding;
    const double factor = steps->angles.factor;
    double c[GYRE_PAIR_CHUNK], s[GYRE_PAIR_CHUNK];
    unsigned char doubtful[BLOCK] = {0};
    gyre_angle_block job = {.rows = to->rows,
                            .step_row_stride = steps->pairs,
                            .out_row_stride = to->out_row_stride,
                            .factor = factor,
                            .sine_factor = encoding->config.rope.clockwise ? -factor : factor,
                            .cosine = c,
                            .sine = s,
                            .doubtful = doubtful};
    /* Steps have the frequencies of later tokens. */
    const int has_start = (double)(to->anchor + to->from) < steps->angles.start_below;
    if (has_start ||
        encoding->config.rope.angles != GYRE_ANGLE_PATH_EXACT) { /* nor can bits of other programs be computed */
        for (int64_t j = 0; j < to->rows; j++)
            fill_row_directly(steps, to, j);
        return;
    }
    for (int64_t first = 0; first < steps->pairs; first += job.pairs) {
        job.pairs = steps->pairs - first < GYRE_PAIR_CHUNK ? steps->pairs - first : GYRE_PAIR_CHUNK;
        for (int64_t i = 0; i < job.pairs; i++)
            gyre_angle(steps->frequency[first + i], (double)to->anchor, &c[i], &s[i]);
        job.step_cosine = steps->step + to->from * steps->pairs + first;
        job.step_sine = job.step_cosine + BLOCK * steps->pairs;
        job.cosine_out = to->cosine + first;
        job.sine_out = to->sine + first;
        encoding->kernels->angle_rows(&job);
    }
    for (int64_t j = 0; j < to->rows; j++)
        if (doubtful[j]) fill_row_directly(steps, to, j);
}

void gyre_angle_steps_fill_rows(const gyre_angle_steps *steps, int64_t m, int64_t count, const gyre_cos_sin_rows *out) {
    for (int64_t done = 0, rows; done < count; done += rows) {
        const int64_t position = m + done, from = (position % BLOCK + BLOCK) % BLOCK;
        rows = BLOCK - from < count - done ? BLOCK - from : count - done;
        const block_target to = {position - from,
                                 from,
                                 rows,
                                 out->row_stride,
                                 out->cosine + done * out->row_stride,
                                 out->sine + done * out->row_stride};
        fill_rows_by_steps(steps, &to);
    }
}

/* -- the table -- */
static gyre_angle_steps steps_of(const gyre_encoding *encoding) {
    const gyre_angle_table *t = encoding->angles;
    return (gyre_angle_steps){gyre_angles_of(encoding, GYRE_DIRECTION_FORWARD, 0), encoding->frequency, t->step, t->pairs};
}

/* 1 if the steps are ready; 0 while another thread is filling them in. */
static int ensure_steps(const gyre_encoding *encoding) {
    const gyre_angle_table *t = encoding->angles;
    if (encoding->config.rope.angles != GYRE_ANGLE_PATH_EXACT || gyre_block_is_ready(&t->state[0]))
        return 1; /* only exact rows are made from steps */
    if (!gyre_block_claim(&t->state[0])) return 0;
    fill_steps(encoding->frequency, t->pairs, t->step);
    gyre_block_publish(&t->state[0]);
    return 1;
}

const float *gyre_angle_table_row(const gyre_encoding *encoding, int64_t m) {
    const gyre_angle_table *t = encoding->angles;
    if (!t || m < 0 || m >= t->rows) return NULL;
    gyre_block_state *state = &t->state[1 + m / BLOCK];
    if (!gyre_block_is_ready(state)) {
        const int64_t anchor = m / BLOCK * BLOCK, left = t->rows - anchor;
        float *row = t->row + 2 * t->pairs * anchor;
        const block_target all = {anchor, 0, left < BLOCK ? left : BLOCK, 2 * t->pairs, row, row + t->pairs};
        if (!ensure_steps(encoding) || !gyre_block_claim(state)) return NULL;
        const gyre_angle_steps steps = steps_of(encoding);
        fill_rows_by_steps(&steps, &all);
        gyre_block_publish(state);
    }
    return t->row + 2 * t->pairs * m;
}

const float *gyre_angle_table_span(const gyre_encoding *encoding, int64_t m, int64_t count) {
    if (!encoding->angles || m < 0 || count < 1 || m > encoding->angles->rows - count) return NULL;
    for (int64_t n = m / BLOCK * BLOCK; n < m + count; n += BLOCK)
        if (!gyre_angle_table_row(encoding, n)) return NULL;
    return gyre_angle_table_row(encoding, m);
}

const double *gyre_angle_table_row_f64(const gyre_encoding *encoding, int64_t m) {
    const gyre_angle_table *t = encoding->angles;
    if (!t || !t->rows_f64 || m < 0 || m >= t->rows) return NULL;
    const int64_t anchor = m / BLOCK * BLOCK, end = t->rows - anchor < BLOCK ? t->rows : anchor + BLOCK;
    gyre_block_state *state = &t->state[1 + (int64_t)blocks_of(t->rows) + m / BLOCK];
    if (!gyre_block_is_ready(state)) {
        if (!gyre_block_claim(state)) return NULL;
        for (int64_t n = anchor; n < end; n++)
            compute_row_f64(encoding, n, 0, t->pairs, t->rows_f64 + 2 * t->pairs * n,
                            t->rows_f64 + 2 * t->pairs * n + t->pairs);
        gyre_block_publish(state);
    }
    return t->rows_f64 + 2 * t->pairs * m;
}

int64_t gyre_angle_table_fill_rows(const gyre_encoding *encoding, int64_t m, int64_t count, const gyre_cos_sin_rows *out) {
    if (!encoding->angles || encoding->axis || !ensure_steps(encoding)) return 0;
    const gyre_angle_steps steps = steps_of(encoding);
    gyre_angle_steps_fill_rows(&steps, m, count, out);
    return count;
}

int64_t gyre_angle_table_length(const gyre_encoding *encoding) {
    return encoding->angles ? encoding->angles->rows : 0;
}

size_t gyre_angle_table_bytes(const gyre_encoding *encoding) {
    const gyre_angle_table *t = encoding->angles;
    size_t bytes = 0;
    for (size_t i = 0; t && i <= 2 * blocks_of(t->rows); i++)
        if (gyre_block_is_ready(&t->state[i]))
            bytes +=
                2 * (size_t)BLOCK * (size_t)t->pairs * (i > 0 && i <= blocks_of(t->rows) ? sizeof(float) : sizeof(double));
    return bytes;
}
