/* angle_table.c: rows of cos and sin, made by blocks.
 *
 * Position m = anchor + j, j < BLOCK, has angle anchor x f + j x f: the cos and sin of an anchor are computed, those of the
 * steps j x f are kept, and a complex product gives the row.  In double it is off by a few 2^-53, so hardly ever does it
 * round to another float than the cos and sin computed directly; where it might, it is computed directly. */
#if defined(__linux__)
#define _DEFAULT_SOURCE /* madvise */
#endif
#include "core/angle_table.h"

#include "core/angles.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

enum { BLOCK = 64, HUGE_PAGE = 2 << 20 };
enum { EMPTY, FILLING, READY };
typedef _Atomic unsigned char block_state;

struct gyre_angle_table {
    int64_t rows, pairs;
    double *step;       /* [2][BLOCK][pairs]: cos, then sin of j x f */
    block_state *state; /* [1 + 2 blocks]: of the steps, of each block of rows, of each block of wide ones */
    float *row;         /* [rows][2][pairs] */
    double *wide;       /* the same */
};

static size_t blocks_of(int64_t rows) {
    return (size_t)((rows + BLOCK - 1) / BLOCK);
}

/* Pages of 2 MiB spare a walk of the page tables for every row or two. */
static void advise(void *memory, size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const uintptr_t first = ((uintptr_t)memory + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    const uintptr_t last = ((uintptr_t)memory + bytes) / HUGE_PAGE * HUGE_PAGE;
    if (last > first) (void)madvise((void *)first, last - first, MADV_HUGEPAGE);
#else
    (void)memory, (void)bytes;
#endif
}

gyre_status gyre_angle_table_make(gyre_encoding *encoding, int64_t rows, gyre_error *err) {
    enum { ALIGN = 64 };
    const int64_t pairs = encoding->config.rope.dim / 2;
    const size_t head = (sizeof(gyre_angle_table) + ALIGN - 1) / ALIGN * ALIGN;
    const size_t steps = 2 * (size_t)BLOCK * (size_t)pairs * sizeof(double);
    const size_t states = (1 + 2 * blocks_of(rows) + ALIGN - 1) / ALIGN * ALIGN;
    const size_t row = 2 * (size_t)pairs * sizeof(float), all = 3 * row; /* a wide row takes two */
    if ((uint64_t)rows > (SIZE_MAX / 2 - head - steps - states) / all)
        return gyre_fail(err, GYRE_ENOMEM, "rope.table_positions: more than memory can hold (gyre_config)");
    char *memory = gyre_encoding_allocate(encoding, (int64_t)(head + steps + states + (size_t)rows * all), 1, err);
    if (!memory) return GYRE_ENOMEM;
    gyre_angle_table *table = (gyre_angle_table *)(void *)memory;
    *table = (gyre_angle_table){rows,
                                pairs,
                                (double *)(void *)(memory + head),
                                (block_state *)(memory + head + steps),
                                NULL,
                                (double *)(void *)(memory + head + steps + states)};
    table->row = (float *)(table->wide + 2 * rows * pairs);
    for (size_t i = 0; i <= 2 * blocks_of(rows); i++)
        atomic_init(&table->state[i], EMPTY);
    advise(table->wide, (size_t)rows * all);
    encoding->angles = table;
    return GYRE_OK;
}

/* 1: the caller shall fill it in, and set it to READY. */
static int claim(block_state *state) {
    unsigned char empty = EMPTY;
    return atomic_compare_exchange_strong_explicit(state, &empty, FILLING, memory_order_acquire, memory_order_relaxed);
}

static int ready(const block_state *state) {
    return atomic_load_explicit((block_state *)state, memory_order_acquire) == READY;
}

static void fill_steps(const gyre_encoding *encoding) {
    const gyre_angle_table *t = encoding->angles;
    for (int64_t j = 0; j < BLOCK; j++)
        for (int64_t i = 0; i < t->pairs; i++)
            gyre_angle(encoding->frequency[i], (double)j, &t->step[j * t->pairs + i], &t->step[(BLOCK + j) * t->pairs + i]);
}

/* pairs first .. first + count - 1 at position m. */
static void compute(const gyre_encoding *encoding, int64_t m, int64_t first, int64_t count, double *c, double *s) {
    const gyre_angles angles = gyre_angles_of(encoding, GYRE_FORWARD, 0);
    double position[GYRE_MAX_AXES];
    for (int a = 0; a < GYRE_MAX_AXES; a++)
        position[a] = (double)m;
    gyre_angles_f64(&angles, encoding->frequency + first, first, count, position, c, s);
}

static void fill_directly(const gyre_encoding *encoding, int64_t m, float *row) {
    const int64_t pairs = encoding->config.rope.dim / 2;
    double c[GYRE_PAIR_CHUNK], s[GYRE_PAIR_CHUNK];
    for (int64_t first = 0, count; first < pairs; first += count) {
        count = pairs - first < GYRE_PAIR_CHUNK ? pairs - first : GYRE_PAIR_CHUNK;
        compute(encoding, m, first, count, c, s);
        for (int64_t i = 0; i < count; i++) {
            row[first + i] = (float)c[i];
            row[pairs + first + i] = (float)s[i];
        }
    }
}

/* PyTorch's path has no steps to go by. */
static void fill_in_float(const gyre_encoding *encoding, int64_t block) {
    const gyre_angle_table *t = encoding->angles;
    for (int64_t m = block * BLOCK; m < t->rows && m < (block + 1) * BLOCK; m++)
        fill_directly(encoding, m, t->row + 2 * t->pairs * m);
}

static void fill_block(const gyre_encoding *encoding, int64_t block) {
    const gyre_angle_table *t = encoding->angles;
    const int64_t anchor = block * BLOCK, left = t->rows - anchor, pairs = t->pairs;
    double c[GYRE_PAIR_CHUNK], s[GYRE_PAIR_CHUNK];
    unsigned char doubtful[BLOCK] = {0};
    gyre_angle_rows job = {.rows = left < BLOCK ? left : BLOCK,
                           .row = pairs,
                           .factor = encoding->attention_factor,
                           .sine_factor =
                               encoding->config.rope.clockwise ? -encoding->attention_factor : encoding->attention_factor,
                           .cosine = c,
                           .sine = s,
                           .doubtful = doubtful};
    for (int64_t first = 0; first < pairs; first += job.pairs) {
        job.pairs = pairs - first < GYRE_PAIR_CHUNK ? pairs - first : GYRE_PAIR_CHUNK;
        for (int64_t i = 0; i < job.pairs; i++)
            gyre_angle(encoding->frequency[first + i], (double)anchor, &c[i], &s[i]);
        job.step_cosine = t->step + first;
        job.step_sine = t->step + BLOCK * pairs + first;
        job.out = t->row + 2 * pairs * anchor + first;
        encoding->kernels->angle_rows(&job);
    }
    for (int64_t j = 0; j < job.rows; j++)
        if (doubtful[j]) fill_directly(encoding, anchor + j, t->row + 2 * pairs * (anchor + j));
}

const float *gyre_angle_table_row(const gyre_encoding *encoding, int64_t m) {
    const gyre_angle_table *t = encoding->angles;
    if (!t || m < 0 || m >= t->rows) return NULL;
    block_state *state = &t->state[1 + m / BLOCK];
    if (!ready(state)) {
        if (!ready(&t->state[0])) {
            if (!claim(&t->state[0])) return NULL;
            fill_steps(encoding);
            atomic_store_explicit(&t->state[0], READY, memory_order_release);
        }
        if (!claim(state)) return NULL;
        if (encoding->config.rope.angles == GYRE_ANGLES_TORCH)
            fill_in_float(encoding, m / BLOCK);
        else
            fill_block(encoding, m / BLOCK);
        atomic_store_explicit(state, READY, memory_order_release);
    }
    return t->row + 2 * t->pairs * m;
}

const double *gyre_angle_table_wide_row(const gyre_encoding *encoding, int64_t m) {
    const gyre_angle_table *t = encoding->angles;
    if (!t || m < 0 || m >= t->rows) return NULL;
    const int64_t anchor = m / BLOCK * BLOCK, end = t->rows - anchor < BLOCK ? t->rows : anchor + BLOCK;
    block_state *state = &t->state[1 + (int64_t)blocks_of(t->rows) + m / BLOCK];
    if (!ready(state)) {
        if (!claim(state)) return NULL;
        for (int64_t n = anchor; n < end; n++)
            compute(encoding, n, 0, t->pairs, t->wide + 2 * t->pairs * n, t->wide + 2 * t->pairs * n + t->pairs);
        atomic_store_explicit(state, READY, memory_order_release);
    }
    return t->wide + 2 * t->pairs * m;
}

size_t gyre_angle_table_bytes(const gyre_encoding *encoding) {
    const gyre_angle_table *t = encoding->angles;
    size_t bytes = 0;
    for (size_t i = 0; t && i <= 2 * blocks_of(t->rows); i++)
        if (ready(&t->state[i]))
            bytes +=
                2 * (size_t)BLOCK * (size_t)t->pairs * (i > 0 && i <= blocks_of(t->rows) ? sizeof(float) : sizeof(double));
    return bytes;
}
