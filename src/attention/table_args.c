/* table_args.c: what a call must bring of tables, the scratch they take, and where their gradients end. */
#include "attention/backward.h"
#include "attention/tables.h"
#include "core/convert.h"
#include "core/encoding.h"
#include "core/exec.h"
#include "core/positions.h"
#include "core/scheme.h"
#include "core/table_view.h"
#include "core/view.h"

#include <string.h>

static int has_vector_table(const gyre_encoding *encoding, gyre_table which, unsigned vector_side) {
    return encoding && (encoding->table[which].rows > 0 || (encoding->fixed_terms & vector_side));
}

gyre_status gyre_tables_shape_check(const gyre_attention_args *args) {
    const gyre_encoding *encoding = args->encoding;
    const int scores = has_vector_table(encoding, GYRE_TABLE_QUERY, GYRE_TERM_QUERY) ||
                       has_vector_table(encoding, GYRE_TABLE_KEY, GYRE_TERM_KEY) ||
                       has_vector_table(encoding, GYRE_TABLE_CONTENT_BIAS, 0) ||
                       has_vector_table(encoding, GYRE_TABLE_POSITION_BIAS, 0);
    if (scores && encoding->config.head_dim != args->q.shape[3]) return GYRE_ESHAPE;
    for (int which = GYRE_TABLE_QUERY; which < GYRE_TABLE_COUNT; which++) {
        int64_t shape[4]; /* rows are padded to 16 channels of up to 8 bytes, and their number must stay one */
        const gyre_status status = gyre_encoding_table_shape(encoding, (gyre_table)which, shape);
        if (status) return status;
        const int64_t elements = gyre_view_elements(shape);
        if (elements < 0 || elements > INT64_MAX / 256) return GYRE_ENOMEM;
    }
    const int values = has_vector_table(encoding, GYRE_TABLE_VALUE, GYRE_TERM_VALUE);
    return values && encoding->config.head_dim != args->v.shape[3] ? GYRE_ESHAPE : GYRE_OK;
}

/* Distances between tokens that can see each other, where positions count up from a base. */
static void measure_distances(gyre_attention_plan *plan) {
    const gyre_attention_args *args = plan->args;
    const int64_t window = args->sinks > 0 ? 0 : args->window, most = GYRE_MAX_POSITION; /* sinks may be at any distance */
    if (args->q_pos.data || args->k_pos.data) return;
    if (args->q_pos.base < -most || args->q_pos.base > most || args->k_pos.base < -most || args->k_pos.base > most) return;
    int64_t low = args->k_pos.base - args->q_pos.base - (plan->queries - 1);
    int64_t high = args->k_pos.base - args->q_pos.base + plan->keys - 1;
    if (args->causal && !plan->by_order && high > 0) high = 0;
    if (window > 0 && !plan->by_order && low < 1 - window) low = 1 - window;
    if (window > 0 && !plan->by_order && high > window - 1) high = window - 1;
    plan->table.first_distance = low;
    plan->table.distance_count = high >= low ? high - low + 1 : 0;
}

/* A short text does not pay for a long table.  Tiles are scored whole, so distances up to a tile's width past those of pairs
 * that see each other are looked at too. */
static void measure_rows(gyre_attention_plan *plan) {
    const gyre_distance_map *map = &plan->encoding->distance_map;
    const int64_t margin = QUERY_TILE + KEY_TILE;
    plan->table.first_row = 0;
    plan->table.end_row = plan->table.rows;
    if (plan->table.distance_count == 0 || plan->table.rows == 0) return;
    int64_t first = plan->table.first_distance - margin, last = first + plan->table.distance_count + 2 * margin;
    first = first < -map->clip_distance ? -map->clip_distance : first > map->clip_distance ? map->clip_distance : first;
    last = last < -map->clip_distance ? -map->clip_distance : last > map->clip_distance ? map->clip_distance : last;
    plan->table.first_row = plan->table.rows;
    plan->table.end_row = 0;
    for (int64_t distance = first; distance <= last; distance++) {
        const int64_t row = gyre_distance_map_row(map, distance);
        if (row < plan->table.first_row) plan->table.first_row = row;
        if (row >= plan->table.end_row) plan->table.end_row = row + 1;
    }
    plan->table.first_row -= plan->table.first_row % 16; /* they are packed by 16 */
}

void gyre_tables_measure(gyre_attention_plan *plan) {
    const gyre_encoding *encoding = plan->encoding;
    plan->table = (struct gyre_table_plan){0};
    plan->uses_tables = 0;
    if (!encoding) return;
    plan->table.query = has_vector_table(encoding, GYRE_TABLE_QUERY, GYRE_TERM_QUERY);
    plan->table.key = has_vector_table(encoding, GYRE_TABLE_KEY, GYRE_TERM_KEY);
    plan->table.value = has_vector_table(encoding, GYRE_TABLE_VALUE, GYRE_TERM_VALUE);
    plan->table.has_score_bias = encoding->scheme->bias_row && !encoding->scheme->bias_tile;
    plan->table.trains_pair_bias = encoding->scheme->bias_tile && encoding->scheme->bias_row_gradient;
    plan->table.content = encoding->table[GYRE_TABLE_CONTENT_BIAS].rows > 0;
    plan->table.position = encoding->table[GYRE_TABLE_POSITION_BIAS].rows > 0;
    plan->table.bias_rows = encoding->table[GYRE_TABLE_BIAS].rows;
    for (int which = GYRE_TABLE_QUERY; which <= GYRE_TABLE_VALUE; which++)
        if (encoding->table[which].rows > 0) plan->table.rows = encoding->table[which].rows;
    if (encoding->fixed_terms) plan->table.rows = 2 * encoding->distance_map.clip_distance + 1;
    plan->table.row_pad = (plan->table.rows + 15) / 16 * 16 + 16;
    measure_distances(plan);
    measure_rows(plan);
    plan->uses_tables =
        plan->table.has_score_bias || plan->table.trains_pair_bias || plan->table.rows > 0 || plan->table.content;
}

gyre_status gyre_tables_check(const gyre_attention_plan *plan) {
    gyre_status status = GYRE_OK;
    for (int which = GYRE_TABLE_QUERY; plan->uses_tables && which < GYRE_TABLE_COUNT && !status; which++)
        status = gyre_table_check(plan->encoding, (gyre_table)which, plan->args->tables, "gyre_attention", NULL);
    return status;
}

gyre_status gyre_tables_gradient_check(const gyre_attention_plan *plan, const gyre_table_gradients *gradients) {
    gyre_status status = GYRE_OK;
    for (int which = GYRE_TABLE_QUERY; plan->uses_tables && which < GYRE_TABLE_COUNT && !status; which++)
        status = gyre_table_gradient_check(plan->encoding, (gyre_table)which, gradients, "gyre_attention_gradient", NULL);
    return status;
}

/* -- scratch -- */

/* Heads of one item that have a table, and so a gradient, of their own. */
static int64_t heads_in_item(const gyre_attention_plan *plan, int which) {
    return plan->encoding->table[which].heads > 1 ? plan->group : 1;
}

typedef struct packing {
    gyre_table which;
    int wanted, rows, columns;
    int64_t pad;
} packing;

static void layout_packed(const gyre_attention_plan *plan, gyre_arena *a, const packing *how, gyre_packed_table *packed) {
    *packed = (gyre_packed_table){.head = -1, .shared = plan->encoding->table[how->which].heads <= 1};
    if (!how->wanted) return;
    if (how->rows) packed->rows = gyre_arena_alloc(a, plan->table.rows * how->pad, sizeof(float));
    if (how->columns) packed->columns = gyre_arena_alloc(a, plan->table.row_pad * how->pad, sizeof(float));
    if (plan->gradient && plan->encoding->table[how->which].rows > 0)
        packed->gradient = gyre_arena_alloc(a, heads_in_item(plan, how->which) * plan->table.rows * how->pad, sizeof(float));
}

/* With a bias before the keys or before the table, those two do not meet the same queries. */
static void layout_biases(const gyre_attention_plan *plan, gyre_arena *a, gyre_table_buffers *buffers) {
    const int64_t floats = QUERY_TILE * plan->head_pad, doubles = plan->group * plan->head_pad;
    if ((!plan->table.content && !plan->table.position) || !plan->gradient) return;
    buffers->dq_rows = gyre_arena_alloc(a, floats, sizeof *buffers->dq_rows);
    if (plan->table.content) buffers->dcontent = gyre_arena_alloc(a, doubles, sizeof *buffers->dcontent);
    if (plan->table.position) buffers->dposition = gyre_arena_alloc(a, doubles, sizeof *buffers->dposition);
}

void gyre_tables_layout(const gyre_attention_plan *plan, gyre_arena *a, gyre_table_buffers *buffers) {
    const int64_t pairs = QUERY_TILE * KEY_TILE;
    const packing query = {GYRE_TABLE_QUERY, plan->table.query, plan->gradient, 1, plan->head_pad};
    const packing key = {GYRE_TABLE_KEY, plan->table.key, 1, 1, plan->head_pad};
    const packing value = {GYRE_TABLE_VALUE, plan->table.value, !plan->gradient, plan->gradient, plan->value_pad};
    buffers->distance = gyre_arena_alloc(a, pairs, sizeof *buffers->distance);
    if (plan->table.has_score_bias) {
        buffers->score_bias = gyre_arena_alloc(a, pairs, sizeof *buffers->score_bias);
        buffers->cached_bias = gyre_arena_alloc(a, plan->queries + plan->keys, sizeof *buffers->cached_bias);
        buffers->cached_bias_head = -1;
    }
    if (plan->gradient && plan->encoding->scheme->bias_row_gradient) {
        if (plan->table.has_score_bias) buffers->dscore_bias = gyre_arena_alloc(a, pairs, sizeof *buffers->dscore_bias);
        buffers->dbias = gyre_arena_alloc(a, plan->table.bias_rows * plan->group, sizeof *buffers->dbias);
    }
    layout_biases(plan, a, buffers);
    if (plan->table.rows > 0) {
        buffers->row = gyre_arena_alloc(a, pairs, sizeof *buffers->row);
        buffers->query_products = gyre_arena_alloc(a, QUERY_TILE * ROW_BLOCK + 16, sizeof *buffers->query_products);
    }
    if (plan->table.key) buffers->row_reversed = gyre_arena_alloc(a, pairs, sizeof *buffers->row_reversed);
    if (plan->table.key)
        buffers->key_products = gyre_arena_alloc(a, ROW_BLOCK * KEY_BLOCK + 16, sizeof *buffers->key_products);
    layout_packed(plan, a, &query, &buffers->query);
    layout_packed(plan, a, &key, &buffers->key);
    layout_packed(plan, a, &value, &buffers->value);
}

/* -- gradients -- */

static void clear(const gyre_attention_plan *plan, int which, const gyre_packed_table *packed, int64_t pad) {
    const int64_t rows = plan->table.end_row - plan->table.first_row;
    for (int64_t h = 0; packed->gradient && h < heads_in_item(plan, which); h++)
        memset(packed->gradient + (h * plan->table.rows + plan->table.first_row) * pad, 0,
               (size_t)(rows * pad) * sizeof(float));
}

void gyre_tables_clear(const gyre_attention_plan *plan, gyre_query_buffers *queries) {
    gyre_table_buffers *t = queries->tables;
    clear(plan, GYRE_TABLE_QUERY, &t->query, plan->head_pad);
    clear(plan, GYRE_TABLE_KEY, &t->key, plan->head_pad);
    clear(plan, GYRE_TABLE_VALUE, &t->value, plan->value_pad);
    const size_t biases = (size_t)(plan->group * plan->head_pad) * sizeof(double);
    if (t->dcontent) memset(t->dcontent, 0, biases);
    if (t->dposition) memset(t->dposition, 0, biases);
    if (t->dbias) memset(t->dbias, 0, (size_t)(plan->table.bias_rows * plan->group) * sizeof *t->dbias);
}

/* to[c] += scale from[c] */
static void add_row(const gyre_view *view, int64_t head, int64_t r, const float *from, double scale) {
    enum { CHUNK = 64 };
    double sum[CHUNK];
    for (int64_t first = 0; first < view->shape[3]; first += CHUNK) {
        const int64_t count = view->shape[3] - first < CHUNK ? view->shape[3] - first : CHUNK;
        void *to = gyre_view_at(view, 0, head, r, first);
        gyre_load_row_f64(to, view->dtype, view->stride[3], count, sum);
        for (int64_t c = 0; c < count; c++)
            sum[c] += scale * (double)from[first + c];
        gyre_store_row_f64(sum, count, to, view->dtype, view->stride[3]);
    }
}

/* Row r of what one item left of one vector table. */
static void collect_vectors(const gyre_attention_call *call, int64_t item, const gyre_packed_table *packed, int which,
                            int64_t r) {
    const gyre_attention_plan *plan = call->plan;
    const gyre_view *to = gyre_table_gradient_of(call->gradients, (gyre_table)which);
    const int64_t pad = which == GYRE_TABLE_VALUE ? plan->value_pad : plan->head_pad, heads = heads_in_item(plan, which);
    if (!packed->gradient || !to->data) return;
    const double scale = which == GYRE_TABLE_KEY ? (double)plan->scale : 1; /* queries came scaled */
    const int64_t first = packed->shared ? 0 : item % plan->key_heads * plan->group;
    for (int64_t h = 0; h < heads; h++)
        add_row(to, first + h, r, packed->gradient + (h * plan->table.rows + r) * pad, scale);
}

static void collect_score_bias(const gyre_attention_call *call, int64_t item, const gyre_table_buffers *t, int64_t r) {
    const gyre_attention_plan *plan = call->plan;
    const gyre_view *to = &call->gradients->bias;
    for (int64_t h = 0; h < plan->group; h++) {
        void *at = gyre_view_at(to, 0, 0, r, item % plan->key_heads * plan->group + h);
        double sum;
        gyre_load_row_f64(at, to->dtype, 1, 1, &sum);
        sum += t->dbias[r * plan->group + h];
        gyre_store_row_f64(&sum, 1, at, to->dtype, 1);
    }
}

/* What one item left of one bias of the query. */
static void collect_bias(const gyre_attention_plan *plan, int64_t item, const double *from, const gyre_view *to) {
    const int64_t first = item % plan->key_heads * plan->group;
    for (int64_t i = 0; from && to->data && i < plan->group * plan->head_dim; i++) {
        const int64_t h = i / plan->head_dim, c = i % plan->head_dim;
        void *at = gyre_view_at(to, 0, first + h, 0, c);
        double sum;
        gyre_load_row_f64(at, to->dtype, 1, 1, &sum);
        sum += (double)plan->scale * from[h * plan->head_pad + c];
        gyre_store_row_f64(&sum, 1, at, to->dtype, 1);
    }
}

/* One row of every table: rows never meet, even where two tables share their memory. */
static void collect_row(void *arg, int64_t r) {
    const gyre_attention_call *call = arg;
    const gyre_attention_plan *plan = call->plan;
    for (int64_t job = 0; job < plan->jobs && call->wave + job < call->tasks; job++) {
        gyre_gradient_job work;
        const int64_t item = call->wave + job;
        gyre_gradient_job_layout(plan, gyre_job_memory(call, job), &work);
        const gyre_table_buffers *tables = &work.tables;
        if (r >= plan->table.first_row && r < plan->table.end_row) {
            collect_vectors(call, item, &tables->query, GYRE_TABLE_QUERY, r);
            collect_vectors(call, item, &tables->key, GYRE_TABLE_KEY, r);
            collect_vectors(call, item, &tables->value, GYRE_TABLE_VALUE, r);
        }
        if (r == 0) {
            collect_bias(plan, item, tables->dcontent, &call->gradients->content_bias);
            collect_bias(plan, item, tables->dposition, &call->gradients->position_bias);
        }
        if (tables->dbias && call->gradients->bias.data && r < plan->table.bias_rows)
            collect_score_bias(call, item, tables, r);
    }
}

void gyre_tables_collect(gyre_attention_call *call, const gyre_exec *exec) {
    const int64_t rows = call->plan->table.rows, bias_rows = call->plan->table.bias_rows;
    const int64_t most = rows > bias_rows ? rows : bias_rows;
    gyre_parallel(exec, collect_row, call, most > 0 ? most : 1);
}
