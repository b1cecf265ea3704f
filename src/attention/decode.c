/* decode.c: few queries against keys and values where they lie.
 *
 * All query heads of a key head and all their queries are rows of one block, so each key and each value is read and widened
 * once for all of them.  Keys that are turned already are never touched: where they have moved since, the queries turn the
 * other way, <E(m) q, R(s) k> = <R(-s) E(m) q, k>. */
#include "attention/decode.h"
#include "attention/turns.h"
#include "core/view.h"
#include <math.h>
#include <string.h>

/* PASSING_ROWS: rows that go through memory on their way, at a time: so few that they stay in the nearest cache.
 * PIECE: keys of one head that are read before those of the next, where heads lie beside each other, as a model's
 * projections leave them.  A row here and a row there is what memory serves worst: so a piece of all heads, which lies
 * together, is asked for in order, while the one before is read from the cache, head by head. */
enum { PASSING_ROWS = 32, PIECE = 16, LINE = 64 };

/* A part under work. */
typedef struct decoder {
    const gyre_attention_plan *plan;
    const gyre_key_side *keys;
    const gyre_partial *to;
    int64_t batch, head, rows;    /* head: of the keys; rows: head by head, their queries in order */
    gyre_query_side *sides;       /* [heads of the item] */
    float *q_rows;                /* [rows][head_pad], turned and scaled */
    float *back_rows;             /* the same turned back by `shift`, where `shifted` */
    float *scores;                /* [rows][KEY_TILE], then the weights */
    float *passing;               /* [PASSING_ROWS][the larger pad] */
    int64_t shift[GYRE_MAX_AXES]; /* only what the encoding turns by */
    int shifted;
    int meets; /* 1: some query sees some key of the tile under work */
    gyre_meeting meeting;
} decoder;

/* -- what is served -------------------------------------------------------------------------------------------------- */

static int knows(const gyre_attention_plan *plan) {
    const struct gyre_table_plan *table = &plan->table;
    const int vectors = table->query || table->key || table->value || table->content || table->position;
    return !plan->gradient && !plan->turn.fades && !plan->turn.far && !vectors && plan->args->dropout == 0;
}

int gyre_decode_serves(const gyre_attention_plan *plan) {
    return plan->queries <= FEW_QUERIES && knows(plan);
}

/* A multiple of ALIGNMENT: heads that are read together lie so far apart. */
static size_t place(const gyre_attention_plan *plan, char *memory, decoder *d) {
    const int64_t rows = plan->few_rows, pad = plan->head_pad > plan->value_pad ? plan->head_pad : plan->value_pad;
    gyre_arena a = {memory, 0};
    d->sides = gyre_arena_take(&a, plan->group, sizeof *d->sides);
    d->q_rows = gyre_arena_take(&a, rows * plan->head_pad, sizeof(float));
    d->back_rows = gyre_arena_take(&a, rows * plan->head_pad, sizeof(float));
    d->scores = gyre_arena_take(&a, rows * KEY_TILE, sizeof(float));
    d->passing = gyre_arena_take(&a, PASSING_ROWS * pad, sizeof(float));
    return (a.used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Of a call, whatever a pass of it has. */
static int64_t most_beside(const gyre_attention_plan *plan) {
    const int64_t beside = plan->source->beside < plan->key_heads ? plan->source->beside : plan->key_heads;
    return !knows(plan) || plan->group > 1 || beside < 1 ? 1 : beside < MOST_BESIDE ? beside : MOST_BESIDE;
}

/* Several queries to a key are work enough to hide where it lies: there a few keys at a time cost more than they spare. */
int64_t gyre_decode_beside(const gyre_attention_plan *plan) {
    return plan->queries == 1 ? most_beside(plan) : 1;
}

/* By what a call has, not by what a pass of it has: the largest pass may be too many queries, and a shorter one be served.
 */
size_t gyre_decode_bytes(const gyre_attention_plan *plan) {
    decoder d;
    return knows(plan) ? (size_t)most_beside(plan) * place(plan, NULL, &d) : 0;
}

/* -- scores ---------------------------------------------------------------------------------------------------------- */

/* The queries as the keys of a run expect them. */
static const float *queries_for(decoder *d, const gyre_key_run *run) {
    const gyre_attention_plan *plan = d->plan;
    int64_t any = 0;
    for (int a = 0; run->shift && a < GYRE_MAX_AXES; a++)
        any |= run->shift[a];
    if (any == 0 || plan->turn.pairs == 0) return d->q_rows;
    if (d->shifted && memcmp(d->shift, run->shift, sizeof d->shift) == 0) return d->back_rows;
    const gyre_shifted rows = {d->rows, plan->head_pad, d->back_rows};
    memcpy(d->back_rows, d->q_rows, (size_t)(d->rows * plan->head_pad) * sizeof *d->q_rows);
    gyre_turn_shift(plan->encoding, plan->args->q_pos.length, run->shift, -1, &rows);
    memcpy(d->shift, run->shift, sizeof d->shift);
    d->shifted = 1;
    return d->back_rows;
}

static void score_rows(const gyre_kernels *kernels, gyre_dtype dtype, const gyre_key_scores *job) {
    if (dtype == GYRE_F16)
        kernels->score_rows_f16(job);
    else if (dtype == GYRE_BF16)
        kernels->score_rows_bf16(job);
    else if (dtype == GYRE_Q8)
        kernels->score_rows_q8(job);
    else
        kernels->score_rows_f32(job);
}

/* Asks for a row that is read later, and need not be there.  A kernel that reads many rows does so by itself. */
static void fetch_row(uintptr_t row, int64_t bytes) {
    for (int64_t b = 0; b < bytes; b += LINE)
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): it may be past the end */
        __builtin_prefetch((const char *)(row + (uintptr_t)b), 0, 2);
}

/* Keys first .. first + n - 1 of a run, floats and turned; at: the same counted in the pass. */
static void pass_keys(const decoder *d, const gyre_key_run *run, int64_t first, int64_t n, int64_t at) {
    const gyre_attention_plan *plan = d->plan;
    const gyre_dtype dtype = plan->source->k_dtype;
    const int64_t size = (int64_t)gyre_dtype_size(dtype), step = run->k_row * size;
    const gyre_rows rows = {d->batch, d->head, at, n};
    const gyre_turned how = {.role = GYRE_KEY};
    for (int64_t j = 0; j < n; j++) {
        const char *from = (const char *)run->k + (first + j) * step;
        fetch_row((uintptr_t)from + (uintptr_t)(PASSING_ROWS * step), plan->head_dim * run->k_step * size);
        gyre_row_read(plan->kernels, from, dtype, run->k_step, plan->head_dim, d->passing + j * plan->head_pad);
    }
    if (!plan->source->turned) gyre_turns_apply(plan, &rows, &how, d->passing);
}

/* Keys that must be turned first, or whose channels lie apart; first: of the run, in the pass. */
static void score_passing(const decoder *d, const gyre_key_run *run, int64_t first, const gyre_key_scores *all) {
    for (int64_t done = 0; done < run->count; done += PASSING_ROWS) {
        const int64_t left = run->count - done, n = left < PASSING_ROWS ? left : PASSING_ROWS;
        gyre_key_scores job = *all;
        pass_keys(d, run, done, n, first + done);
        job.keys = n;
        job.k = d->passing;
        job.k_row = d->plan->head_pad;
        job.k_scale = all->k_scale ? all->k_scale + done : NULL;
        job.scores = all->scores + done;
        d->plan->kernels->score_rows_f32(&job);
    }
}

/* scores = queries . keys from .. of the tile's, `piece` of them, run by run. */
static void score_piece(decoder *d, int64_t from, int64_t piece) {
    const gyre_attention_plan *plan = d->plan;
    const int turns = plan->turn.pairs > 0 && !plan->source->turned;
    const int64_t first = d->meeting.tile * KEY_TILE + d->meeting.first;
    const int64_t end = d->meeting.count < from + piece ? d->meeting.count : from + piece;
    gyre_key_run run;
    for (int64_t done = from; done < end; done += run.count) {
        gyre_key_run_at(plan->source, d->batch, d->head, first + done, end - done, &run);
        const gyre_key_scores job = {.rows = d->rows,
                                     .keys = run.count,
                                     .channels = plan->head_dim,
                                     .q = queries_for(d, &run),
                                     .q_row = plan->head_pad,
                                     .k = run.k,
                                     .k_row = run.k_row,
                                     .k_scale = run.k_scale,
                                     .scores = d->scores + done,
                                     .score_row = KEY_TILE,
                                     .fetched = piece < KEY_TILE};
        if (turns || run.k_step != 1)
            score_passing(d, &run, first + done, &job);
        else
            score_rows(plan->kernels, plan->source->k_dtype, &job);
    }
}

/* scores += the numbers of a head, relative to the rows' biases. */
static void add_numbers(const gyre_attention_plan *plan, gyre_query_side *q, const int64_t *positions, int64_t count) {
    const gyre_scheme *scheme = plan->encoding ? plan->encoding->scheme : NULL;
    double number[KEY_TILE];
    if (scheme && scheme->score_tile) {
        const gyre_tile tile = {q->positions, positions, q->nearest, q->count, count, KEY_TILE, q->scores};
        scheme->score_tile(plan->encoding, plan->args->tables, q->head, &tile);
    }
    for (int64_t i = 0; scheme && plan->table.numbers && i < q->count; i++) {
        const gyre_score_row row = {q->head, q->positions[i], positions, count};
        scheme->score_row(plan->encoding, plan->args->tables, &row, number);
        for (int64_t j = 0; j < count; j++)
            q->scores[i * KEY_TILE + j] += (float)(number[j] - q->bias[i]);
    }
}

/* -- weights and values ---------------------------------------------------------------------------------------------- */

static void weigh_rows(const gyre_kernels *kernels, gyre_dtype dtype, const gyre_value_sums *job) {
    if (dtype == GYRE_F16)
        kernels->weigh_rows_f16(job);
    else if (dtype == GYRE_BF16)
        kernels->weigh_rows_bf16(job);
    else if (dtype == GYRE_Q8)
        kernels->weigh_rows_q8(job);
    else
        kernels->weigh_rows_f32(job);
}

/* Values whose channels lie apart. */
static void weigh_passing(const decoder *d, const gyre_key_run *run, const gyre_value_sums *all) {
    const gyre_attention_plan *plan = d->plan;
    const gyre_dtype dtype = plan->source->v_dtype;
    for (int64_t done = 0; done < run->count; done += PASSING_ROWS) {
        const int64_t left = run->count - done, n = left < PASSING_ROWS ? left : PASSING_ROWS;
        for (int64_t j = 0; j < n; j++)
            gyre_row_read(plan->kernels, (const char *)run->v + (done + j) * run->v_row * (int64_t)gyre_dtype_size(dtype),
                          dtype, run->v_step, plan->value_dim, d->passing + j * plan->value_pad);
        gyre_value_sums job = *all;
        job.keys = n;
        job.v = d->passing;
        job.v_row = plan->value_pad;
        job.weights = all->weights + done;
        plan->kernels->weigh_rows_f32(&job);
    }
}

static void scale_weights(float *restrict weights, const float *restrict scale, int64_t count) {
    for (int64_t j = 0; j < count; j++)
        weights[j] *= scale[j];
}

/* out += weights . values of a run, whose first key is the tile's `done`. */
static void weigh_run(const decoder *d, const gyre_key_run *run, int64_t done, int fetched) {
    const gyre_attention_plan *plan = d->plan;
    for (int64_t r = 0; run->v_scale && r < d->rows; r++)
        scale_weights(d->scores + r * KEY_TILE + done, run->v_scale, run->count);
    const gyre_value_sums job = {.rows = d->rows,
                                 .keys = run->count,
                                 .channels = plan->value_dim,
                                 .weights = d->scores + done,
                                 .weight_row = KEY_TILE,
                                 .v = run->v,
                                 .v_row = run->v_row,
                                 .out = d->to->out,
                                 .out_row = plan->value_pad,
                                 .fetched = fetched};
    if (run->v_step == 1)
        weigh_rows(plan->kernels, plan->source->v_dtype, &job);
    else
        weigh_passing(d, run, &job);
}

/* -- a part ---------------------------------------------------------------------------------------------------------- */

static void begin(decoder *d) {
    const gyre_attention_plan *plan = d->plan;
    const gyre_partial *to = d->to;
    for (int64_t g = 0; g < plan->group; g++) {
        const gyre_rows rows = {d->batch, d->head * plan->group + g, 0, plan->queries};
        gyre_query_side *q = &d->sides[g];
        memset(q, 0, sizeof *q);
        q->q_rows[0] = q->table_rows = d->q_rows + g * plan->queries * plan->head_pad;
        q->scores = d->scores + g * plan->queries * KEY_TILE;
        gyre_query_side_fill(plan, d->keys, &rows, q);
        memcpy(to->bias + g * plan->queries, q->bias, (size_t)plan->queries * sizeof *q->bias);
    }
    memset(to->out, 0, (size_t)(d->rows * plan->value_pad) * sizeof *to->out);
    for (int64_t r = 0; r < d->rows; r++)
        to->top[r] = -INFINITY, to->sum[r] = 0;
}

/* 1 and the part of a tile that some head sees: the same for all that see any of it. */
static int meets(const decoder *d, int64_t tile, gyre_meeting *meeting) {
    for (int64_t g = 0; g < d->plan->group; g++)
        if (gyre_tiles_meet(d->plan, d->keys, &d->sides[g], tile, meeting)) return 1;
    return 0;
}

static void find_weights(decoder *d) {
    const gyre_meeting *meeting = &d->meeting;
    const int64_t first = meeting->tile * KEY_TILE + meeting->first;
    for (int64_t g = 0; g < d->plan->group; g++) {
        add_numbers(d->plan, &d->sides[g], d->keys->positions + first, meeting->count);
        gyre_tiles_hide(d->plan, d->keys, &d->sides[g], meeting);
    }
    const gyre_softmax rows = {d->rows, meeting->columns, d->scores, d->to->top, d->to->sum, d->to->out};
    gyre_softmax_meet(d->plan, &rows);
}

/* out += weights . values from .. of the tile's, `piece` of them, run by run. */
static void weigh_piece(decoder *d, int64_t from, int64_t piece) {
    const int64_t first = d->meeting.tile * KEY_TILE + d->meeting.first;
    const int64_t end = d->meeting.count < from + piece ? d->meeting.count : from + piece;
    gyre_key_run run;
    for (int64_t done = from; done < end; done += run.count) {
        gyre_key_run_at(d->plan->source, d->batch, d->head, first + done, end - done, &run);
        weigh_run(d, &run, done, piece < KEY_TILE);
    }
}

/* Asks memory for the next piece of what heads that lie beside each other read, in the order in which it lies: share h of
 * `heads`.  values: 1, of the values. */
static void fetch_share(const decoder *d, int values, int64_t first, int64_t h, int64_t heads) {
    const gyre_attention_plan *plan = d->plan;
    if (first >= plan->keys) return;
    gyre_key_run run;
    gyre_key_run_at(plan->source, d->batch, d->head, first, PIECE, &run);
    const int64_t size = (int64_t)gyre_dtype_size(values ? plan->source->v_dtype : plan->source->k_dtype);
    const int64_t bytes = heads * size * (values ? plan->value_dim : plan->head_dim), lines = (bytes + LINE - 1) / LINE;
    const int64_t step = size * (values ? run.v_row : run.k_row);
    const int64_t begin = lines * run.count * h / heads, end = lines * run.count * (h + 1) / heads;
    const char *row = (const char *)(values ? run.v : run.k) + begin / lines * step;
    for (int64_t i = begin, line = begin % lines; i < end; i++) {
        __builtin_prefetch(row + line * LINE, 0, 2);
        if (++line == lines) line = 0, row += step;
    }
}

/* Pieces of a tile: the keys' of all heads in turn, or the values'; for each head the share of the piece to come is asked
 * for: after the keys come the values, after those the keys of the next tile. */
static void read_tile(decoder *d, int64_t heads, int64_t tile, int values) {
    const int64_t piece = heads > 1 ? PIECE : KEY_TILE;
    for (int64_t from = 0; from < KEY_TILE; from += piece)
        for (int64_t h = 0; h < heads; h++) {
            const int last = from + piece == KEY_TILE;
            const int64_t next = tile * KEY_TILE + (last ? (values ? KEY_TILE : 0) : from + piece);
            if (heads > 1) fetch_share(d, values != last, next, h, heads);
            if (!d[h].meets || from >= d[h].meeting.count) continue;
            if (values)
                weigh_piece(&d[h], from, piece);
            else
                score_piece(&d[h], from, piece);
        }
}

static void meet_tile(decoder *d, int64_t heads, int64_t tile) {
    for (int64_t h = 0; h < heads; h++)
        d[h].meets = meets(&d[h], tile, &d[h].meeting);
    read_tile(d, heads, tile, 0);
    for (int64_t h = 0; h < heads; h++)
        if (d[h].meets) find_weights(&d[h]);
    read_tile(d, heads, tile, 1);
}

static int all_finite(const decoder *d) {
    int finite;
    d->plan->kernels->finite_row_f32(d->to->out, d->rows * d->plan->value_pad, &finite);
    for (int64_t r = 0; r < d->rows; r++)
        finite &= isfinite(d->to->sum[r]) != 0;
    return finite;
}

void gyre_decode_part(const gyre_attention_plan *plan, const gyre_key_side *keys, const gyre_decode_task *task, char *memory,
                      const gyre_partial *out, int *strange) {
    decoder d[MOST_BESIDE];
    for (int64_t h = 0; h < task->items; h++) {
        const int64_t item = task->item + h;
        d[h] = (decoder){.plan = plan,
                         .keys = keys,
                         .to = &out[h],
                         .batch = item / plan->key_heads,
                         .head = item % plan->key_heads,
                         .rows = plan->group * plan->queries};
        memory += place(plan, memory, &d[h]);
        begin(&d[h]);
    }
    for (int64_t t = task->first / KEY_TILE; t * KEY_TILE < task->first + task->count; t++)
        meet_tile(d, task->items, t);
    for (int64_t h = 0; h < task->items; h++)
        strange[h] = !all_finite(&d[h]);
}
