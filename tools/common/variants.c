/* variants.c: the table of encodings that can be trained. */
#include "tools/common/variants.h"
#include "gyre/gyre_fields.h"
#include "gyre/gyre_research.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_values.h"
#include "util/plain_numbers.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parameters of variants that are trained under a scaling. */
typedef struct variant_params {
    double factor;
    method_betas betas;
} variant_params;

static void kerple_power(gyre_config *c, const variant_params *s) {
    (void)s;
    c->score.decay = GYRE_DECAY_POWER;
}
static void bert_key_query(gyre_config *c, const variant_params *s) {
    (void)s;
    c->score.terms = GYRE_TERM_QUERY | GYRE_TERM_KEY;
}
static void xpos(gyre_config *c, const variant_params *s) {
    (void)s;
    c->rope.xpos_base = 512;
}
static void resonance(gyre_config *c, const variant_params *s) {
    (void)s;
    c->rope.resonance = 1;
}
/* The pairs that make no whole revolution within the trained length.  rope.dim and rope.base are set by then. */
static void clip(gyre_config *c, gyre_clip mode) {
    const method m = {.clip = mode, .keeps_model_scaling = 1, .label = "clipped"};
    gyre_config clipped;
    if (!method_config(&m, c, c->trained_length, c->trained_length, NULL, &clipped, NULL)) c->rope.clip = clipped.rope.clip;
}
static void clipped(gyre_config *c, const variant_params *s) {
    (void)s;
    clip(c, GYRE_CLIP_SOFT);
}
static void clipped_hard(gyre_config *c, const variant_params *s) {
    (void)s;
    clip(c, GYRE_CLIP_HARD);
}
static void yarn(gyre_config *c, const variant_params *s) {
    c->rope.scaling = GYRE_SCALING_YARN;
    c->rope.factor = s->factor;
    c->rope.beta_fast = s->betas.fast;
    c->rope.beta_slow = s->betas.slow;
}
static void yarn_resonance(gyre_config *c, const variant_params *s) {
    yarn(c, s);
    resonance(c, s);
}

/* A scheme with something changed, in its config or in the model beside it. */
typedef struct changed_scheme {
    const char *name, *scheme;
    void (*modify)(gyre_config *config, const variant_params *s);
    int64_t layer_parts, rope_dim, position_form, shared_tables, rotates_input; /* rope_dim: 0 = all */
    int64_t head_factor, key_divisor, channel_factor; /* of heads, key heads and channels that rotate; 0 = 1 */
    gyre_position_draw draw;                          /* of the positions of training sequences */
    int64_t still_every; /* layers still_every, 2 still_every, ..., counted from 1, do not rotate; 0 = all do */
} changed_scheme;
enum { MOST_STILL = 8 };

static const changed_scheme changed[] = {
    {"kerple-power", "kerple", .modify = kerple_power},
    {"bert-key-query", "bert", .modify = bert_key_query},
    {"xpos", "rope", .modify = xpos},
    {"rope+resonance", "rope", .modify = resonance},
    {"rope+clipped", "rope", .modify = clipped},
    {"rope+clipped-hard", "rope", .modify = clipped_hard},
    {"rope+yarn", "rope", .modify = yarn},
    {"rope+yarn+resonance", "rope", .modify = yarn_resonance},
    {"forgetting", "nope", .layer_parts = GYRE_LAYER_PART_FORGET_GATES},
    {"contextual", "nope", .layer_parts = GYRE_LAYER_PART_CONTEXTUAL},
    /* "all" leaves these out: variants that answer questions of learners (docs/questions.md) rather than serve models, and
     * adapted biases, which send every pair of a query and a key through a network. */
    {"rope-dim-2", "rope", .rope_dim = 2},
    {"rope-dim-4", "rope", .rope_dim = 4},
    {"rope-dim-8", "rope", .rope_dim = 8},
    {"rope-dim-16", "rope", .rope_dim = 16},
    {"rope-dim-32", "rope", .rope_dim = 32},
    {"rope-dim-64", "rope", .rope_dim = 64},
    {"rope-before", "rope", .rotates_input = 1},
    {"rope+randomized", "rope", .draw = GYRE_POSITION_DRAW_RANDOMIZED},
    {"rope+pose", "rope", .draw = GYRE_POSITION_DRAW_POSE},
    {"alibi+randomized", "alibi", .draw = GYRE_POSITION_DRAW_RANDOMIZED},
    {"learned+randomized", "learned", .draw = GYRE_POSITION_DRAW_RANDOMIZED},
    {"sinusoidal+randomized", "sinusoidal", .draw = GYRE_POSITION_DRAW_RANDOMIZED},
    {"sinusoidal+shape", "sinusoidal", .draw = GYRE_POSITION_DRAW_SHAPE},
    {"rope+nope", "rope", .still_every = 4}, /* as SmolLM3, Llama 4 and Granite's decoders with windows */
    {"sinusoidal-product", "sinusoidal", .position_form = GYRE_POSITION_FORM_PRODUCT},
    {"sinusoidal-concat", "sinusoidal", .position_form = GYRE_POSITION_FORM_CONCATENATED},
    {"t5-shared", "t5", .shared_tables = 1},
    {"shaw-shared", "shaw", .shared_tables = 1},
    {"dape-alibi", "alibi", .layer_parts = GYRE_LAYER_PART_ADAPTIVE},
    {"dape-kerple", "kerple", .layer_parts = GYRE_LAYER_PART_ADAPTIVE},
    {"dape-fire", "fire", .layer_parts = GYRE_LAYER_PART_ADAPTIVE}};
enum { CHANGED = sizeof changed / sizeof *changed, LEFT_OUT = 21, OF_ALL = CHANGED - LEFT_OUT };

/* *out = change i: of "all", then of parts that make queries and keys, then those that "all" leaves out.  0: no more. */
static int change_at(int i, changed_scheme *out) {
    gyre_layer_part_variant part;
    int parts = 0;
    if (i < OF_ALL) {
        *out = changed[i];
        return 1;
    }
    for (; gyre_layer_part_variant_at(parts, &part); parts++)
        if (parts == i - OF_ALL) {
            *out = (changed_scheme){part.name,
                                    "rope",
                                    .layer_parts = part.layer_parts,
                                    .head_factor = part.head_factor,
                                    .key_divisor = part.key_divisor,
                                    .channel_factor = part.channel_factor};
            return 1;
        }
    if (i - parts >= CHANGED) return 0;
    *out = changed[i - parts];
    return 1;
}

static int find_change(const variant *v, changed_scheme *out) {
    for (int i = 0; change_at(i, out); i++)
        if (strcmp(out->name, v->name) == 0) return 1;
    return 0;
}

static int kinds_count(void) {
    int n = 0;
    while (gyre_kind_name((gyre_kind)(n + 1)))
        n++;
    return n;
}

/* out = all variants, those that "all" leaves out too. */
static int count_all(void) {
    changed_scheme change;
    int n = 0;
    while (kinds_count() + n < MAX_VARIANTS && change_at(n, &change))
        n++;
    return kinds_count() + n;
}

int variants_count(void) {
    return count_all() - LEFT_OUT;
}

variant variant_at(int index) {
    const int kinds = kinds_count();
    const gyre_kind kind = (gyre_kind)(index + 1);
    changed_scheme change;
    if (index < kinds || !change_at(index - kinds, &change)) return (variant){gyre_kind_name(kind), kind};
    return (variant){change.name, gyre_kind_find(change.scheme)};
}

void variants_list(char out[VARIANT_LIST]) {
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < count_all() && used < VARIANT_LIST; i++)
        used += (size_t)snprintf(out + used, VARIANT_LIST - used, "%s%s", i ? ", " : "", variant_at(i).name);
}

gyre_status variant_find(const char *name, size_t length, variant *out, gyre_error *err) {
    for (int i = 0; i < count_all(); i++) {
        const variant v = variant_at(i);
        if (strlen(v.name) != length || strncmp(v.name, name, length) != 0) continue;
        *out = v;
        return GYRE_OK;
    }
    char given[33];
    gyre_plain_snprintf(given, length < sizeof given ? length + 1 : sizeof given, "%s", name);
    return gyre_fail(err, GYRE_EUNSUPPORTED, "\"%s\"", given);
}

void variants_refuse(const char *option, gyre_status status, const gyre_error *err) {
    char known[VARIANT_LIST]; /* more than an error holds */
    variants_list(known);
    if (status == GYRE_EUNSUPPORTED) cli_usage_error("%s: %s: none of %s", option, err->text, known);
    cli_usage_error("%s: %s", option, err->text);
}

static gyre_status parse_names(const char *list, variant found[MAX_VARIANTS], int *count, gyre_error *err) {
    for (const char *c = list; c;) {
        const size_t length = strcspn(c, ",");
        variant v;
        const gyre_status status = variant_find(c, length, &v, err);
        if (status) return status;
        for (int i = 0; i < *count; i++)
            if (strcmp(found[i].name, v.name) == 0) return gyre_fail(err, GYRE_EINVAL, "%s: is given twice", v.name);
        found[(*count)++] = v;
        c = c[length] ? c + length + 1 : NULL;
    }
    return GYRE_OK;
}

gyre_status variants_parse(const char *list, variant out[MAX_VARIANTS], int *count, gyre_error *err) {
    variant found[MAX_VARIANTS];
    int n = 0;
    if (strcmp(list, "all") == 0) {
        for (; n < variants_count(); n++)
            found[n] = variant_at(n);
    } else {
        const gyre_status status = parse_names(list, found, &n, err);
        if (status) return status;
    }
    memcpy(out, found, (size_t)n * sizeof *out);
    *count = n;
    return GYRE_OK;
}

gyre_status variant_config(const variant *v, int64_t trained, int64_t longest, const method_betas *betas,
                           gyre_config *config) {
    const variant_params s = {(double)longest / (double)trained, *betas};
    config->kind = v->kind;
    config->trained_length = trained;
    changed_scheme c = {.modify = NULL};
    const int is_changed = find_change(v, &c);
    if (is_changed && c.modify) c.modify(config, &s);
    if (is_changed && c.rope_dim) config->rope.dim = c.rope_dim;
    if (gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES) && config->rope.dim > config->head_dim) return GYRE_EINVAL;
    const int scaled = gyre_kind_has(config->kind, GYRE_TRAIT_ROTATES) && config->rope.scaling != GYRE_SCALING_NONE;
    if (scaled && longest <= trained) return GYRE_EINVAL; /* a factor of 1 does not scale */
    const gyre_status status = gyre_config_suggest(config);
    if (!status && gyre_kind_has(config->kind, GYRE_TRAIT_QUERY_VECTORS))
        config->head_dim += config->score.relative_channels = GYRE_RELATIVE_CHANNELS;
    return status;
}

gyre_status sinusoid_create(gyre_encoding **out, int64_t dim, double base, gyre_sinusoid layout, gyre_error *err) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = gyre_kind_find("sinusoidal");
    config.input.dim = dim;
    config.input.base = base;
    config.input.layout = layout;
    return gyre_encoding_create(out, &config, NULL, err);
}

gyre_status sinusoid_rows(const gyre_encoding *sinusoid, int64_t first, int64_t count, double *rows, const gyre_exec *exec,
                          gyre_error *err) {
    const int64_t dim = gyre_encoding_get_config(sinusoid)->input.dim;
    const gyre_positions positions = {.base = first};
    const gyre_view out = gyre_dense(rows, GYRE_DTYPE_F64, 1, count, 1, dim);
    const gyre_cview in = gyre_const(out);
    memset(rows, 0, (size_t)(count * dim) * sizeof *rows);
    return gyre_add_input(sinusoid, GYRE_ARGS(gyre_add_input_args, .positions = &positions, .in = in, .out = out), exec,
                          err);
}

gyre_status shift_create(gyre_encoding **out, int64_t dim, double base, int clockwise, double factor, gyre_error *err) {
    gyre_config config = GYRE_INIT(gyre_config);
    config.kind = gyre_kind_find("rope");
    config.head_dim = dim;
    config.rope.base = base;
    config.rope.layout = GYRE_LAYOUT_INTERLEAVED;
    config.rope.clockwise = clockwise;
    config.rope.scaling = GYRE_SCALING_LINEAR;
    config.rope.factor = factor;
    config.rope.table_positions = GYRE_NO_TABLE;
    return gyre_encoding_create(out, &config, NULL, err);
}

gyre_status shift_rows(const gyre_encoding *shift, int64_t k, const double *rows, int64_t count, double *out,
                       const gyre_exec *exec, gyre_error *err) {
    const int64_t dim = gyre_encoding_get_config(shift)->head_dim;
    const gyre_positions all_at_k = {.data = &k, .dtype = GYRE_DTYPE_I64, .one_position = 1};
    const gyre_cview in = gyre_cdense(rows, GYRE_DTYPE_F64, 1, count, 1, dim);
    const gyre_view to = gyre_dense(out, GYRE_DTYPE_F64, 1, count, 1, dim);
    return gyre_rotate(
        shift, GYRE_ARGS(gyre_rotate_args, .role = GYRE_ROLE_KEY, .positions = &all_at_k, .in = in, .out = to), exec, err);
}

/* The bases of the first layers, which repeat. */
static void set_still(const changed_scheme *c, gyre_model_config *model) {
    static double bases[MOST_STILL]; /* a model copies them when it is made; a run has one base */
    for (int64_t i = 0; i < c->still_every; i++)
        bases[i] = i + 1 == c->still_every ? 0 : model->position.rope.base != 0 ? model->position.rope.base : 10000;
    model->layer_bases = bases;
    model->layer_bases_count = c->still_every;
}

void variant_model(const variant *v, gyre_model_config *model) {
    changed_scheme c;
    if (!find_change(v, &c)) return;
    model->layer_parts = c.layer_parts;
    model->position_form = c.position_form;
    model->shared_tables = c.shared_tables;
    model->rotates_input = c.rotates_input;
    if (c.channel_factor) model->position.head_dim *= c.channel_factor;
    if (c.head_factor) model->position.heads = model->heads *= c.head_factor;
    if (c.key_divisor) model->kv_heads /= c.key_divisor;
    if (c.still_every) set_still(&c, model);
}

/* -- positions of training sequences -- */
gyre_position_draw variant_draw(const variant *v) {
    changed_scheme c;
    return find_change(v, &c) ? c.draw : GYRE_POSITION_DRAW_NONE;
}

void draw_read(const char *option, const char *text, gyre_train_options *out) {
    const char *range = strchr(text, ':'), *name;
    const size_t length = range ? (size_t)(range - text) : strlen(text);
    for (int i = 1; (name = gyre_position_draw_name((gyre_position_draw)i)) != NULL; i++) {
        if (strlen(name) != length || strncmp(name, text, length) != 0) continue;
        if (!range) cli_usage_error("%s: %s of how many positions? Such as %s:4096", option, name, name);
        out->positions = (gyre_position_draw)i;
        out->position_range = cli_integer(option, range + 1, 1, CLI_MAX_TOKENS);
        return;
    }
    cli_usage_error("%s: \"%.32s\" is none of randomized:N, shape:N, pose:N", option, text);
}

void draw_fit(const gyre_train_options *options, gyre_config *position) {
    const int drawn = options->positions != GYRE_POSITION_DRAW_NONE && gyre_config_has(position, "input.positions");
    if (drawn && position->input.positions > 0 && position->input.positions < options->position_range)
        position->input.positions = options->position_range;
}

void variant_read(const char *option, const char *text, void *at) {
    gyre_error err = {0, ""};
    const gyre_status status = variant_find(text, strlen(text), at, &err);
    if (status) variants_refuse(option, status, &err);
}

/* -- looks -- */
static const struct {
    const char *name;
    gyre_report_paint color;
    gyre_report_mark mark;
} subjects[] = {
#define METHOD_LOOK(name, paint, mark)   {name, GYRE_REPORT_PAINT_##paint, GYRE_REPORT_MARK_##mark},
#define ENCODING_LOOK(name, paint, mark) {name, GYRE_REPORT_PAINT_##paint, GYRE_REPORT_MARK_##mark},
#include "tools/common/subject_looks.def"
#undef METHOD_LOOK
#undef ENCODING_LOOK
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

/* out = SUBJECTS if there is none of that name. */
static int find_name(const char *label, size_t length) {
    int i = 0;
    while (i < SUBJECTS && (strlen(subjects[i].name) != length || strncmp(subjects[i].name, label, length) != 0))
        i++;
    return i;
}

/* A name is followed by a number and other words: ":16", "+logn", ", causal".  Each power of two and each length of the
 * words has the next dash. */
static int variant_dash(const char *behind) {
    char *words = (char *)behind;
    const double number = *behind == ':' ? strtod(behind + 1, &words) : 0;
    const int64_t step = (number > 2 ? lround(log2(number)) - 1 : 0) + (int64_t)strlen(words);
    return 2 + (int)(step % (GYRE_REPORT_DASHES - 1));
}

gyre_report_look subject_look(const char *label) {
    size_t length = strcspn(label, ":,");
    int found = find_name(label, length);
    if (found == SUBJECTS) found = find_name(label, length = strcspn(label, ":+,"));
    if (found == SUBJECTS) return (gyre_report_look){.hollow = 0};
    const int is_plain = !label[length];
    return (gyre_report_look){subjects[found].color, subjects[found].mark, !is_plain,
                              is_plain ? 1 : variant_dash(label + length)};
}
