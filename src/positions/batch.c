/* batch.c: creates a batch: checks its config, counts its tokens, and fills in their positions. */
#include "positions/batch.h"
#include "core/positions.h"
#include "core/sized.h"
#include "core/system_alloc.h"
#include "positions/batch_positions.h"
#include "util/error.h"
#include "util/integers.h"

#include <inttypes.h>
#include <string.h>

/* Of documents, of tokens of a row, and of tokens in all: products with a few bytes stay in range. */
#define MAX_TOKENS ((int64_t)1 << 40)

/* -- the config -- */

static gyre_status check_numbers(const gyre_batch_config *config, gyre_error *err) {
    const struct {
        const char *name;
        int64_t value, most;
    } fields[] = {{"form", (int64_t)config->form, GYRE_BATCH_MASKED},
                  {"documents", config->documents, GYRE_MAX_POSITION},
                  {"row_tokens", config->row_tokens, MAX_TOKENS},
                  {"axes", config->axes, GYRE_BATCH_MAX_AXES},
                  {"after_grid", (int64_t)config->after_grid, GYRE_AFTER_GRID_SIDES}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].value < 0 || fields[i].value > fields[i].most)
            return gyre_fail(err, GYRE_EINVAL, "%s: %" PRId64 " is not in 0 .. %" PRId64 " (gyre_batch_config)",
                             fields[i].name, fields[i].value, fields[i].most);
    if (config->padding_position < -GYRE_MAX_POSITION || config->padding_position > GYRE_MAX_POSITION)
        return gyre_fail(err, GYRE_ERANGE, "padding_position: %" PRId64 " is past 2^31 (gyre_batch_config)",
                         config->padding_position);
    const int masked = config->form == GYRE_BATCH_MASKED;
    if (!masked != !config->mask)
        return gyre_fail(err, GYRE_EINVAL, "mask: %s (gyre_batch_config)",
                         masked ? "is NULL, but the form is MASKED" : "is set, but the form is not MASKED");
    if (!config->spans != !config->span_starts)
        return gyre_fail(err, GYRE_EINVAL, "spans: and span_starts go together (gyre_batch_config)");
    if (config->documents > 0 && !config->lengths && !config->spans && !masked)
        return gyre_fail(err, GYRE_EINVAL, "lengths: is NULL (gyre_batch_config)");
    return GYRE_OK;
}

static int64_t marked(const gyre_batch_config *config, int64_t d) {
    int64_t count = 0;
    for (int64_t t = 0; t < config->row_tokens; t++)
        count += config->mask[d * config->row_tokens + t] != 0;
    return count;
}

/* *tokens = new tokens of the spans of document d. */
static gyre_status count_spans(const gyre_batch_config *config, int64_t d, int64_t *tokens, gyre_error *err) {
    const int64_t first = config->span_starts[d], end = config->span_starts[d + 1];
    if (first > end || (d == 0 && first < 0))
        return gyre_fail(err, GYRE_EINVAL, "span_starts[%" PRId64 "]: %" PRId64 " is below %" PRId64 " (gyre_batch_config)",
                         d + 1, end, first < 0 ? 0 : first);
    *tokens = 0;
    for (int64_t s = first; s < end; s++) {
        int64_t count = 0;
        const gyre_status status = gyre_span_tokens(&config->spans[s], s, &count, err);
        if (status) return status;
        if (*tokens > GYRE_MAX_POSITION - count)
            return gyre_fail(err, GYRE_EINVAL, "spans: document %" PRId64 " has more than 2^31 tokens (gyre_batch_config)",
                             d);
        *tokens += count;
    }
    return GYRE_OK;
}

/* *tokens = new tokens of document d; all fields that state the number must agree. */
static gyre_status count_document(const gyre_batch_config *config, int64_t d, int64_t *tokens, gyre_error *err) {
    int64_t counts[3] = {0, 0, 0};
    const char *names[3] = {"lengths", NULL, NULL};
    int n = 0;
    if (config->lengths) counts[n] = config->lengths[d], names[n++] = "lengths";
    if (config->mask) counts[n] = marked(config, d), names[n++] = "mask";
    if (config->spans) {
        const gyre_status status = count_spans(config, d, &counts[n], err);
        if (status) return status;
        names[n++] = "spans";
    }
    for (int i = 1; i < n; i++)
        if (counts[i] != counts[0])
            return gyre_fail(err, GYRE_EINVAL,
                             "%s: %" PRId64 " tokens of document %" PRId64 ", but %s has %" PRId64 " (gyre_batch_config)",
                             names[i], counts[i], d, names[0], counts[0]);
    *tokens = counts[0];
    if (*tokens < 0 || *tokens > GYRE_MAX_POSITION)
        return gyre_fail(err, GYRE_EINVAL, "%s[%" PRId64 "]: %" PRId64 " is not in 0 .. 2^31 (gyre_batch_config)", names[0],
                         d, *tokens);
    return GYRE_OK;
}

/* Positions of document d, cached tokens included, are within 2^31 of 0. */
static gyre_status check_range(const gyre_batch_config *config, int64_t d, int64_t tokens, gyre_error *err) {
    const int64_t cached = config->cached ? config->cached[d] : 0;
    const int64_t first = config->first_positions ? config->first_positions[d] : cached, most = GYRE_MAX_POSITION;
    if (cached < 0 || cached > most)
        return gyre_fail(err, GYRE_EINVAL, "cached[%" PRId64 "]: %" PRId64 " is not in 0 .. 2^31 (gyre_batch_config)", d,
                         cached);
    double end = (double)first + (config->spans ? 0 : (double)tokens);
    const int in_range = first >= -most && first <= most && first - cached >= -most;
    for (int64_t s = config->spans ? config->span_starts[d] : 0; config->spans && s < config->span_starts[d + 1]; s++)
        for (int a = 0; a < 2; a++) { /* text continues after it, but positions reach the largest on any axis */
            const double reach = end + gyre_span_advance(&config->spans[s], a ? config->axes : 3,
                                                         a ? config->after_grid : GYRE_AFTER_GRID_LARGEST);
            if (reach > (double)most + 1)
                return gyre_fail(err, GYRE_ERANGE, "spans[%" PRId64 "]: reaches past position 2^31 (gyre_batch_config)", s);
            if (a) end = reach;
        }
    if (in_range && end <= (double)most + 1) return GYRE_OK;
    return gyre_fail(err, GYRE_ERANGE, "documents: positions of document %" PRId64 " reach past 2^31 (gyre_batch_config)",
                     d);
}

/* *sum, *longest: of new tokens.  Also counts the keys. */
typedef struct batch_counts {
    int64_t sum, longest, keys;
} batch_counts;

static gyre_status count_documents(const gyre_batch_config *config, batch_counts *counts, gyre_error *err) {
    *counts = (batch_counts){0, 0, 0};
    for (int64_t d = 0; d < config->documents; d++) {
        int64_t tokens = 0;
        gyre_status status = count_document(config, d, &tokens, err);
        if (!status) status = check_range(config, d, tokens, err);
        if (status) return status;
        counts->sum += tokens;
        counts->keys += tokens + (config->cached ? config->cached[d] : 0);
        counts->longest = gyre_max_i64(counts->longest, tokens);
        if (counts->keys > MAX_TOKENS)
            return gyre_fail(err, GYRE_EINVAL, "documents: more than 2^40 tokens (gyre_batch_config)");
    }
    return GYRE_OK;
}

static gyre_status measure(gyre_batch *batch, const gyre_batch_config *config, gyre_error *err) {
    batch_counts counts;
    const gyre_status status = count_documents(config, &counts, err);
    if (status) return status;
    const int packed = config->form == GYRE_BATCH_PACKED, masked = config->form == GYRE_BATCH_MASKED;
    const int64_t needed = packed ? counts.sum : counts.longest;
    if (config->row_tokens != 0 && config->row_tokens < needed)
        return gyre_fail(err, GYRE_EINVAL,
                         "row_tokens: %" PRId64 " are fewer than the %" PRId64 " needed (gyre_batch_config)",
                         config->row_tokens, needed);
    batch->form = config->form;
    batch->documents = config->documents;
    batch->rows = packed ? 1 : config->documents;
    batch->tokens = config->row_tokens != 0 || masked ? config->row_tokens : needed;
    if (batch->rows > 0 && batch->tokens > MAX_TOKENS / batch->rows)
        return gyre_fail(err, GYRE_EINVAL, "row_tokens: more than 2^40 tokens in all (gyre_batch_config)");
    batch->padded = batch->rows * batch->tokens > counts.sum;
    batch->axes = config->axes > 0 ? config->axes : 1;
    batch->sequences = packed ? batch->documents + batch->padded : batch->rows;
    batch->keys = packed && config->cached ? counts.keys + batch->tokens - counts.sum : 0;
    return GYRE_OK;
}

/* -- memory -- */

/* out = numbers of the block, which begins at lengths. */
static size_t lay_out(gyre_batch *b, int64_t *block) {
    const int64_t tokens = b->rows * b->tokens;
    int64_t **const of_documents[] = {&b->lengths, &b->cached, &b->first_positions, &b->next_positions};
    int64_t **const of_sequences[] = {&b->q_starts, &b->k_starts, &b->k_first, &b->k_end, &b->context_lengths};
    size_t used = 0;
    for (size_t i = 0; i < sizeof of_documents / sizeof *of_documents; i++)
        *of_documents[i] = gyre_take_numbers(block, &used, b->documents);
    for (size_t i = 0; i < sizeof of_sequences / sizeof *of_sequences; i++)
        *of_sequences[i] = gyre_take_numbers(block, &used, b->sequences + 1);
    b->document_of = gyre_take_numbers(block, &used, tokens);
    b->order = gyre_take_numbers(block, &used, tokens);
    b->positions = gyre_take_numbers(block, &used, b->axes * tokens);
    b->k_positions = gyre_take_numbers(block, &used, b->axes * b->keys);
    if (b->keys == 0) b->k_positions = NULL;
    return used;
}

/* -- filling in -- */

static void fill_documents(gyre_batch *b, const gyre_batch_config *config) {
    for (int64_t d = 0; d < b->documents; d++) {
        int64_t tokens = 0;
        const gyre_status status = count_document(config, d, &tokens, NULL);
        b->lengths[d] = status ? 0 : tokens; /* it was counted before */
        b->cached[d] = config->cached ? config->cached[d] : 0;
        b->first_positions[d] = config->first_positions ? config->first_positions[d] : b->cached[d];
    }
}

/* out = the first slot of document d, or where its mask begins. */
static int64_t first_slot(const gyre_batch *b, int64_t d) {
    if (b->form == GYRE_BATCH_PACKED) return b->q_starts[d];
    return d * b->tokens + (b->form == GYRE_BATCH_PADDED_LEFT ? b->tokens - b->lengths[d] : 0);
}

static void fill_starts(gyre_batch *b) {
    b->q_starts[0] = b->k_starts[0] = 0;
    for (int64_t d = 0; d < b->documents && b->form == GYRE_BATCH_PACKED; d++) {
        b->q_starts[d + 1] = b->q_starts[d] + b->lengths[d];
        b->k_starts[d + 1] = b->k_starts[d] + b->cached[d] + b->lengths[d];
    }
    if (b->form != GYRE_BATCH_PACKED || !b->padded) return;
    const int64_t padding = b->tokens - b->q_starts[b->documents];
    b->q_starts[b->sequences] = b->tokens;
    b->k_starts[b->sequences] = b->k_starts[b->documents] + padding;
}

static int64_t largest(const int64_t *at, int64_t count, int64_t most) {
    for (int64_t i = 0; i < count; i++)
        most = gyre_max_i64(most, at[i]);
    return most;
}

static void fill_document(gyre_batch *b, const gyre_batch_config *config, int64_t d) {
    const int64_t tokens = b->rows * b->tokens, first = first_slot(b, d);
    gyre_position_sink sink = {b->positions, b->axes, tokens, first, config->mask}, places = sink;
    int64_t next = b->first_positions[d];
    if (!config->spans) next = gyre_put_text(&sink, next, b->lengths[d]);
    for (int64_t s = config->spans ? config->span_starts[d] : 0; config->spans && s < config->span_starts[d + 1]; s++)
        next = gyre_put_span(&sink, next, &config->spans[s], config->after_grid);
    b->next_positions[d] = next;
    b->context_lengths[d] = gyre_max_i64(b->first_positions[d], 0);
    for (int64_t i = 0, end = 0; i < b->lengths[d]; i++) {
        const int64_t slot = gyre_next_slot(&places);
        b->document_of[slot] = d;
        b->order[slot] = b->cached[d] + i;
        end = largest(&b->positions[slot], 1, end);
        b->context_lengths[d] = gyre_max_i64(b->context_lengths[d], end + 1);
        if (b->form == GYRE_BATCH_PACKED) continue;
        if (i == 0) b->k_first[d] = slot - d * b->tokens;
        b->k_end[d] = slot - d * b->tokens + 1;
    }
}

static void fill_key_positions(gyre_batch *b) {
    for (int64_t d = 0; b->k_positions && d < b->documents; d++)
        for (int64_t a = 0; a < b->axes; a++) {
            int64_t *to = b->k_positions + a * b->keys + b->k_starts[d];
            for (int64_t i = 0; i < b->cached[d]; i++)
                to[i] = b->first_positions[d] - b->cached[d] + i;
            memcpy(to + b->cached[d], b->positions + a * b->tokens + b->q_starts[d], (size_t)b->lengths[d] * sizeof *to);
        }
}

static void fill(gyre_batch *b, const gyre_batch_config *config) {
    const int64_t tokens = b->rows * b->tokens;
    fill_documents(b, config);
    fill_starts(b);
    for (int64_t s = 0; s < b->sequences; s++) {
        b->k_first[s] = b->k_end[s] = b->context_lengths[s] = 0;
        if (b->form == GYRE_BATCH_PACKED && s < b->documents) b->k_end[s] = b->k_starts[s + 1] - b->k_starts[s];
    }
    for (int64_t i = 0; i < tokens; i++)
        b->document_of[i] = b->order[i] = -1;
    for (int64_t i = 0; i < b->axes * tokens; i++)
        b->positions[i] = config->padding_position;
    for (int64_t i = 0; i < b->axes * b->keys; i++)
        b->k_positions[i] = config->padding_position;
    for (int64_t d = 0; d < b->documents; d++)
        fill_document(b, config, d);
    fill_key_positions(b);
}

/* -- the calls -- */

gyre_status gyre_batch_create(gyre_batch **out, const gyre_batch_config *given, const gyre_alloc *alloc, gyre_error *err) {
    gyre_batch_config config;
    gyre_batch own = {.rows = 0};
    gyre_status status = gyre_sized_read(&config, sizeof config, given, "gyre_batch_config", err);
    if (!status) status = gyre_alloc_read(&own.alloc, alloc, "gyre_batch_create", err);
    if (!status && !out) status = gyre_fail(err, GYRE_EINVAL, "out: is NULL (gyre_batch_create)");
    if (!status) status = check_numbers(&config, err);
    if (!status) status = measure(&own, &config, err);
    if (status) return status;
    const size_t head = (sizeof own + 63) / 64 * 64, bytes = head + lay_out(&own, NULL) * sizeof(int64_t);
    char *memory = own.alloc.alloc(own.alloc.ctx, bytes, 64);
    if (!memory) return gyre_fail(err, GYRE_ENOMEM, "memory: %zu bytes for a batch (gyre_batch_create)", bytes);
    lay_out(&own, (int64_t *)(void *)(memory + head));
    fill(&own, &config);
    memcpy(memory, &own, sizeof own);
    *out = (gyre_batch *)(void *)memory;
    return GYRE_OK;
}

void gyre_batch_free(gyre_batch *batch) {
    if (!batch) return;
    const gyre_alloc alloc = batch->alloc;
    alloc.free(alloc.ctx, batch);
}

gyre_status gyre_batch_get(const gyre_batch *b, gyre_batch_info *out) {
    gyre_batch_info given;
    const gyre_status status = gyre_sized_read(&given, sizeof given, out, "gyre_batch_info", NULL);
    if (status || !b) return GYRE_EINVAL;
    const int packed = b->form == GYRE_BATCH_PACKED;
    const int64_t tokens = b->rows * b->tokens;
    gyre_batch_info info = GYRE_INIT(gyre_batch_info);
    info.rows = b->rows, info.tokens = b->tokens, info.axes = b->axes;
    info.documents = b->documents, info.sequences = b->sequences;
    info.positions = gyre_kept_positions(b->positions, b->tokens, tokens);
    info.order = gyre_kept_positions(b->order, b->tokens, 0);
    info.k_positions = info.positions;
    if (b->k_positions) info.k_positions = gyre_kept_positions(b->k_positions, 0, b->keys);
    info.document_of = b->document_of;
    info.q_starts = packed ? b->q_starts : NULL;
    info.k_starts = packed ? b->k_starts : NULL;
    info.k_first = b->padded ? b->k_first : NULL;
    info.k_end = b->padded ? b->k_end : NULL;
    info.lengths = b->lengths;
    info.next_positions = b->next_positions;
    info.context_lengths = b->context_lengths;
    gyre_sized_write(out, &info);
    return GYRE_OK;
}
