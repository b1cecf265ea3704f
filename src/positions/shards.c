/* shards.c: the tokens of a batch, dealt out to ranks. */
#include "positions/shards.h"
#include "core/sized.h"
#include "core/system_alloc.h"
#include "util/error.h"
#include "util/integers.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_RANKS = 65536 };

/* -- the config -- */

static gyre_status check_config(const gyre_shard_config *config, const gyre_batch *batch, gyre_error *err) {
    const struct {
        const char *name;
        int64_t value, least, most;
    } fields[] = {{"layout", (int64_t)config->layout, 0, GYRE_SHARD_ZIGZAG_PER_DOCUMENT},
                  {"ranks", config->ranks, 1, MAX_RANKS},
                  {"chunk_multiple", config->chunk_multiple, 0, INT32_MAX},
                  {"causal", (int64_t)config->causal, 0, GYRE_CAUSAL_BY_ORDER},
                  {"window", config->window, 0, INT64_MAX},
                  {"window_after", config->window_after, 0, INT64_MAX},
                  {"sinks", config->sinks, 0, INT64_MAX}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < fields[i].least || fields[i].value > fields[i].most)
            return gyre_fail(err, GYRE_EINVAL, "%s: %" PRId64 " is not in %" PRId64 " .. %" PRId64 " (gyre_shard_config)",
                             fields[i].name, fields[i].value, fields[i].least, fields[i].most);
    if (config->layout == GYRE_SHARD_ZIGZAG_PER_DOCUMENT && batch->form != GYRE_BATCH_PACKED)
        return gyre_fail(err, GYRE_EINVAL,
                         "layout: ZIGZAG_PER_DOCUMENT needs a packed batch, because the rows of a shard have equally many "
                         "tokens (gyre_shard_config)");
    return GYRE_OK;
}

/* -- which rank has a token -- */

/* Parts of n tokens: part p begins at p n / parts, rounded down to whole multiples. */
typedef struct cut {
    int64_t tokens, parts, multiple;
} cut;

static int64_t part_first(const cut *c, int64_t part) {
    const int64_t multiples = c->tokens / c->multiple + (c->tokens % c->multiple != 0);
    const int64_t whole = multiples / c->parts * part, rest = multiples % c->parts * part / c->parts;
    const int64_t at = whole + rest;
    return at >= multiples ? c->tokens : at * c->multiple;
}

/* rank[t] of tokens first .. first + c->tokens - 1, cut in parts. */
static void deal_parts(const cut *c, int zigzag, int64_t first, int32_t *rank) {
    for (int64_t p = 0; p < c->parts; p++) {
        const int64_t owner = zigzag && p >= c->parts / 2 ? c->parts - 1 - p : p;
        for (int64_t t = part_first(c, p); t < part_first(c, p + 1); t++)
            rank[first + t] = (int32_t)owner;
    }
}

static void deal(const gyre_batch *batch, const gyre_shard_config *config, int32_t *rank) {
    const int64_t multiple = config->chunk_multiple > 0 ? config->chunk_multiple : 1, ranks = config->ranks;
    cut c = {batch->tokens, config->layout == GYRE_SHARD_CONTIGUOUS ? ranks : 2 * ranks, multiple};
    if (config->layout == GYRE_SHARD_STRIPED) {
        for (int64_t t = 0; t < batch->tokens; t++)
            rank[t] = (int32_t)(t / multiple % ranks);
    } else if (config->layout != GYRE_SHARD_ZIGZAG_PER_DOCUMENT) {
        deal_parts(&c, config->layout == GYRE_SHARD_ZIGZAG, 0, rank);
    } else {
        for (int64_t s = 0; s < batch->sequences; s++) {
            c.tokens = batch->q_starts[s + 1] - batch->q_starts[s];
            deal_parts(&c, 1, batch->q_starts[s], rank);
        }
    }
}

/* -- work -- */

/* out = keys of its document that the token at `place` of `keys` sees. */
static int64_t visible_keys(const gyre_shard_config *config, int64_t place, int64_t keys) {
    const int64_t window = config->window, reach = config->window_after > 0 ? config->window_after : window;
    const int64_t later = keys - 1 - place;
    const int64_t before = window > 0 ? gyre_min_i64(place, window - 1) : place;
    const int64_t after = config->causal ? 0 : reach > 0 ? gyre_min_i64(later, reach - 1) : later;
    int64_t sinks = gyre_min_i64(config->sinks, place - before); /* outside the window */
    if (!config->causal && config->sinks > place + after + 1) sinks += gyre_min_i64(config->sinks, keys) - place - after - 1;
    return sinks + before + 1 + after;
}

/* -- filling in -- */

/* Counts the tokens and the runs of each rank. */
static void count(gyre_shards *s, const int32_t *rank) {
    for (int64_t r = 0; r <= s->ranks; r++)
        s->first_token[r] = s->first_run[r] = 0;
    for (int64_t t = 0; t < s->batch->tokens; t++) {
        s->first_token[rank[t] + 1]++;
        s->first_run[rank[t] + 1] += t == 0 || rank[t] != rank[t - 1];
    }
    for (int64_t r = 0; r < s->ranks; r++) {
        s->first_token[r + 1] += s->first_token[r];
        s->first_run[r + 1] += s->first_run[r];
    }
}

static void fill_index(gyre_shards *s, const int32_t *rank, int64_t *filled) {
    memset(filled, 0, (size_t)(2 * s->ranks) * sizeof *filled);
    int64_t *runs = filled + s->ranks;
    for (int64_t t = 0; t < s->batch->tokens; t++) {
        const int64_t r = rank[t];
        if (t == 0 || rank[t - 1] != r) s->run[s->first_run[r] + runs[r]++] = (gyre_token_run){t, 0};
        s->run[s->first_run[r] + runs[r] - 1].count++;
        s->index[s->first_token[r] + filled[r]++] = t;
    }
}

/* out = how many of the rank's tokens are below `token`. */
static int64_t tokens_below(const gyre_shards *s, int64_t rank, int64_t token) {
    const int64_t *index = s->index + s->first_token[rank];
    int64_t low = 0, high = s->first_token[rank + 1] - s->first_token[rank];
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (index[middle] < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void fill_sequences(gyre_shards *s, int64_t rank) {
    const gyre_batch *b = s->batch;
    const int packed = b->form == GYRE_BATCH_PACKED;
    int64_t *starts = s->starts + rank * (b->sequences + 1), *first = s->k_first + rank * b->sequences,
            *end = s->k_end + rank * b->sequences;
    for (int64_t i = 0; packed && i <= b->sequences; i++)
        starts[i] = tokens_below(s, rank, b->q_starts[i]);
    for (int64_t i = 0; i < b->sequences; i++) {
        first[i] = packed ? 0 : tokens_below(s, rank, b->k_first[i]);
        end[i] = packed ? (i < b->documents ? starts[i + 1] - starts[i] : 0) : tokens_below(s, rank, b->k_end[i]);
    }
}

static void fill_rank(gyre_shards *s, const gyre_shard_config *config, int64_t rank) {
    const gyre_batch *b = s->batch;
    const int64_t first = s->first_token[rank], tokens = s->first_token[rank + 1] - first, all = b->rows * b->tokens;
    int64_t *positions = s->positions + b->axes * b->rows * first, *order = s->order + b->rows * first;
    s->pairs[rank] = 0;
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t i = 0; i < tokens; i++) {
            const int64_t from = r * b->tokens + s->index[first + i], d = b->document_of[from];
            for (int64_t a = 0; a < b->axes; a++)
                positions[(a * b->rows + r) * tokens + i] = b->positions[a * all + from];
            order[r * tokens + i] = b->order[from];
            if (d >= 0) s->pairs[rank] += visible_keys(config, b->order[from], b->cached[d] + b->lengths[d]);
        }
    fill_sequences(s, rank);
}

/* -- what ranks compare -- */

uint64_t gyre_shards_fingerprint(uint64_t start, const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    uint64_t h = start;
    for (; n > 0; n -= n < 8 ? n : 8, at += 8) {
        uint64_t word = 0;
        memcpy(&word, at, n < 8 ? n : 8);
        h = (h ^ word) * 0x9E3779B97F4A7C15U;
        h ^= h >> 29;
    }
    return h;
}

static void take_fingerprint(gyre_shards *s, const gyre_shard_config *config) {
    const gyre_batch *b = s->batch;
    const size_t number = sizeof(int64_t), tokens = (size_t)(b->rows * b->tokens), sequences = (size_t)b->sequences;
    const int64_t shape[] = {(int64_t)b->form,
                             b->rows,
                             b->tokens,
                             b->axes,
                             b->documents,
                             s->ranks,
                             config->window,
                             (int64_t)config->causal,
                             config->sinks,
                             (int64_t)config->layout,
                             config->window_after,
                             config->chunk_multiple};
    uint64_t h = gyre_shards_fingerprint(1, shape, sizeof shape);
    h = gyre_shards_fingerprint(h, s->index, (size_t)b->tokens * number);
    h = gyre_shards_fingerprint(h, s->order, tokens * number);
    h = gyre_shards_fingerprint(h, s->positions, (size_t)b->axes * tokens * number);
    h = gyre_shards_fingerprint(h, s->starts,
                                (size_t)s->ranks * (b->form == GYRE_BATCH_PACKED ? sequences + 1 : 0) * number);
    s->fingerprint = gyre_shards_fingerprint(h, s->k_end, (size_t)s->ranks * sequences * number);
}

/* -- memory -- */

static size_t lay_out(gyre_shards *s, int64_t runs, int64_t *block) {
    const gyre_batch *b = s->batch;
    const int64_t tokens = b->rows * b->tokens;
    size_t used = 0;
    s->first_token = gyre_take_numbers(block, &used, s->ranks + 1);
    s->first_run = gyre_take_numbers(block, &used, s->ranks + 1);
    s->pairs = gyre_take_numbers(block, &used, s->ranks);
    s->index = gyre_take_numbers(block, &used, b->tokens);
    s->run = (gyre_token_run *)gyre_take_numbers(block, &used, 2 * runs);
    s->order = gyre_take_numbers(block, &used, tokens);
    s->positions = gyre_take_numbers(block, &used, b->axes * tokens);
    s->starts = gyre_take_numbers(block, &used, s->ranks * (b->sequences + 1));
    s->k_first = gyre_take_numbers(block, &used, s->ranks * b->sequences);
    s->k_end = gyre_take_numbers(block, &used, s->ranks * b->sequences);
    return used;
}

static gyre_status no_memory(size_t bytes, gyre_error *err) {
    return gyre_fail(err, GYRE_ENOMEM, "memory: %zu bytes for shards (gyre_shards_create)", bytes);
}

/* *out = shards with memory for `runs` runs. */
static gyre_status make(const gyre_shards *own, int64_t runs, gyre_shards **out, gyre_error *err) {
    gyre_shards s = *own;
    if (s.batch->sequences > (INT64_MAX >> 8) / s.ranks) return no_memory(SIZE_MAX, err);
    const size_t head = (sizeof s + 63) / 64 * 64, bytes = head + lay_out(&s, runs, NULL) * sizeof(int64_t);
    char *memory = s.alloc.alloc(s.alloc.ctx, bytes, 64);
    if (!memory) return no_memory(bytes, err);
    lay_out(&s, runs, (int64_t *)(void *)(memory + head));
    memcpy(memory, &s, sizeof s);
    *out = (gyre_shards *)(void *)memory;
    return GYRE_OK;
}

/* -- the calls -- */

static int64_t count_runs(const int32_t *rank, int64_t tokens) {
    int64_t runs = 0;
    for (int64_t t = 0; t < tokens; t++)
        runs += t == 0 || rank[t] != rank[t - 1];
    return runs;
}

gyre_status gyre_shards_create(gyre_shards **out, const gyre_batch *batch, const gyre_shard_config *given,
                               const gyre_alloc *alloc, gyre_error *err) {
    gyre_shard_config config;
    gyre_status status = gyre_sized_read(&config, sizeof config, given, "gyre_shard_config", err);
    if (!status && (!out || !batch))
        status = gyre_fail(err, GYRE_EINVAL, "%s: is NULL (gyre_shards_create)", out ? "batch" : "out");
    gyre_alloc memory;
    if (!status) status = check_config(&config, batch, err);
    if (!status) status = gyre_alloc_read(&memory, alloc, "gyre_shards_create", err);
    if (status) return status;
    const gyre_shards own = {.alloc = memory, .batch = batch, .ranks = config.ranks};
    const size_t work_bytes = (size_t)(2 * own.ranks) * sizeof(int64_t) + (size_t)batch->tokens * sizeof(int32_t);
    int64_t *filled = own.alloc.alloc(own.alloc.ctx, work_bytes, 64);
    if (!filled) return no_memory(work_bytes, err);
    int32_t *rank = (int32_t *)(filled + 2 * own.ranks);
    deal(batch, &config, rank);
    status = make(&own, count_runs(rank, batch->tokens), out, err);
    if (!status) {
        count(*out, rank);
        fill_index(*out, rank, filled);
        for (int64_t r = 0; r < own.ranks; r++)
            fill_rank(*out, &config, r);
        take_fingerprint(*out, &config);
    }
    own.alloc.free(own.alloc.ctx, filled);
    return status;
}

void gyre_shards_free(gyre_shards *shards) {
    if (!shards) return;
    const gyre_alloc alloc = shards->alloc;
    alloc.free(alloc.ctx, shards);
}

gyre_status gyre_shards_get(const gyre_shards *s, int64_t rank, gyre_shard_info *out) {
    gyre_shard_info given;
    const gyre_status status = gyre_sized_read(&given, sizeof given, out, "gyre_shard_info", NULL);
    if (status || !s || rank < 0 || rank >= s->ranks) return GYRE_EINVAL;
    const gyre_batch *b = s->batch;
    const int64_t first = s->first_token[rank], tokens = s->first_token[rank + 1] - first;
    gyre_shard_info info = GYRE_INIT(gyre_shard_info);
    info.rows = b->rows, info.tokens = tokens, info.sequences = b->sequences;
    info.index = s->index + first;
    info.runs = s->first_run[rank + 1] - s->first_run[rank];
    info.run = s->run + s->first_run[rank];
    info.positions = gyre_kept_positions(s->positions + b->axes * b->rows * first, tokens, b->rows * tokens);
    info.order = gyre_kept_positions(s->order + b->rows * first, tokens, 0);
    info.starts = b->form == GYRE_BATCH_PACKED ? s->starts + rank * (b->sequences + 1) : NULL;
    info.k_first = b->padded ? s->k_first + rank * b->sequences : NULL;
    info.k_end = b->padded ? s->k_end + rank * b->sequences : NULL;
    info.pairs = s->pairs[rank];
    gyre_sized_write(out, &info);
    return GYRE_OK;
}

double gyre_shards_imbalance(const gyre_shards *shards) {
    double most = 0, sum = 0;
    if (!shards) return 1;
    for (int64_t r = 0; r < shards->ranks; r++) {
        const double pairs = (double)shards->pairs[r];
        most = pairs > most ? pairs : most;
        sum += pairs;
    }
    return sum > 0 ? most / (sum / (double)shards->ranks) : 1;
}
