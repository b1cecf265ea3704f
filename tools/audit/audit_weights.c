/* audit_weights.c: tensors that hold positions against the config, and the shapes of all others. */
#include "gyre/gyre_research.h"
#include "tools/audit/audit.h"
#include "tools/diff/diff_compare.h"
#include "tools/options/reading_options.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_FAULTS = 2048, /* of tensors, in words */
    MAX_NAMED = 32,    /* findings of them, each of one fault in any number of layers; the others are counted */
    MAX_KEYS = 240
};

/* -- which layers a tensor belongs to -- */
static int has_layer(const gyre_layer_reading *group, int64_t layer) {
    for (int64_t i = 0; i < group->layers_count; i++)
        if (group->layers[i] == layer) return 1;
    return group->layers_count == 0;
}

/* out = the group of the stack and layer that the tensor names; NULL = none is certain. */
static const gyre_layer_reading *group_of(const gyre_reading *reading, const gyre_stored_position *tensor) {
    for (int64_t i = 0; i < reading->groups_count; i++) {
        const gyre_layer_reading *g = reading->groups[i];
        const int of_stack = strcmp(g->name, "encoder") == 0 || strcmp(g->name, "decoder") == 0;
        if (reading_is_beside(g) || (of_stack && !strstr(tensor->name, g->name))) continue;
        if (tensor->layer < 0 || has_layer(g, tensor->layer)) return g;
    }
    return NULL;
}

/* -- stored frequencies -- */
/* *worst = the largest |stored - computed|, *pair where; *rounded = 1 if the dtype's rounding explains every difference. */
static void compare_frequencies(const gyre_stored_position *t, const explain_stats *stats, double *worst, int64_t *pair,
                                int *rounded) {
    const int f16 = strcmp(t->dtype, "F16") == 0, bf16 = strcmp(t->dtype, "BF16") == 0;
    const double relative = f16 ? 0x1p-11 : bf16 ? 0x1p-8 : 1e-5, absolute = f16 ? 0x1p-24 : 0;
    *worst = 0, *pair = -1, *rounded = 1;
    for (int64_t i = 0; i < stats->pairs; i++) {
        const double want = stats->inv_freq[i], gap = fabs((double)t->frequencies[i] - want);
        if (gap > relative * fabs(want) + absolute) *rounded = 0;
        if (gap > *worst) *worst = gap, *pair = i;
    }
}

static void judge_frequencies(audit *a, const gyre_stored_position *t, const explain_stats *stats) {
    double worst;
    int64_t pair;
    int rounded;
    audit_finding *f;
    compare_frequencies(t, stats, &worst, &pair, &rounded);
    const int64_t from = worst > 0 ? diff_first_position(worst) : -1;
    if (!rounded) {
        f = audit_add(
            a, AUDIT_WRONG, "frequencies",
            "%s: pair %" PRId64
            " rotates %.6g radians per position, but the config says %.6g: an angle is 0.01 rad off from position %" PRId64
            " on. The weights were saved under other positions than the config states",
            t->name, pair, (double)t->frequencies[pair], stats->inv_freq[pair], from);
        audit_set_remedy(f, "transformers, vLLM and llama.cpp compute their own from the config; find out which of the two "
                            "the weights were trained with");
    } else if (from >= 0 && (stats->length < 1 || from < stats->length)) {
        f = audit_add(a, AUDIT_NOTE, "frequencies",
                      "%s: rounded to %s; a program that loads it is 0.01 rad off from position %" PRId64 " on", t->name,
                      t->dtype, from);
        audit_set_remedy(f, "transformers, vLLM and llama.cpp compute their own and are not touched");
    } else {
        f = audit_add(a, AUDIT_OK, "frequencies", "%s: as the config says", t->name);
    }
    audit_set_place(f, "%s", t->file);
}

static gyre_status check_frequencies(audit *a, const gyre_stored_position *t, const gyre_layer_reading *group,
                                     gyre_error *err) {
    explain_stats stats;
    if (!t->frequencies) {
        audit_add(a, AUDIT_LEFT_OUT, "frequencies", "%s: %s of rank %" PRId64 " is not read", t->name, t->dtype, t->rank);
        return GYRE_OK;
    }
    const gyre_status status = explain_stats_compute(&stats, a->reading, group, err);
    if (status) return status;
    if (stats.pairs != t->shape[0])
        audit_set_place(audit_add(a, AUDIT_WRONG, "frequencies", "%s: %" PRId64 " pairs, and the config says %" PRId64,
                                  t->name, t->shape[0], stats.pairs),
                        "%s", t->file);
    else
        judge_frequencies(a, t, &stats);
    explain_stats_free(&stats);
    return GYRE_OK;
}

/* -- stored tables -- */
static gyre_table table_of(gyre_stored_position_kind kind) {
    return kind == GYRE_STORED_POSITION_ROWS      ? GYRE_TABLE_INPUT
           : kind == GYRE_STORED_POSITION_BUCKETS ? GYRE_TABLE_BIAS
                                                  : GYRE_TABLE_KEY;
}

static void judge_rows(audit *a, const gyre_stored_position *t, int64_t rows) {
    audit_finding *f;
    if (rows < 1)
        f = audit_add(a, AUDIT_DOUBT, "tables",
                      "%s: a table of %" PRId64 " rows, but the config describes none: it is not used", t->name,
                      t->shape[0]);
    else if (t->shape[0] != rows)
        f = audit_add(a, AUDIT_WRONG, "tables", "%s: %" PRId64 " rows, and the config says %" PRId64 ": %s", t->name,
                      t->shape[0], rows,
                      t->shape[0] < rows ? "the last positions have none"
                                         : "rows are left over, or positions are counted otherwise");
    else
        f = audit_add(a, AUDIT_OK, "tables", "%s: %" PRId64 " rows, as the config says", t->name, rows);
    audit_set_place(f, "%s", t->file);
}

static gyre_status check_table(audit *a, const gyre_stored_position *t, const gyre_layer_reading *group, gyre_error *err) {
    gyre_encoding *encoding = NULL;
    int64_t shape[4] = {0, 0, 0, 0};
    gyre_status status = gyre_encoding_create(&encoding, &group->config, NULL, err);
    if (status) return status;
    status = gyre_encoding_table_shape(encoding, table_of(t->kind), shape);
    gyre_encoding_free(encoding);
    if (!status) judge_rows(a, t, shape[2]);
    return status;
}

/* -- what layers of Gyre's own train -- */
/* out = the name from its layer on: "self_attn.frequencies.weight". */
static const char *after_layer(const char *name) {
    const char *at = strstr(name, ".self_attn.");
    return at ? at + 1 : name;
}

/* The keys of config.json that state a size beside the key of what layers train. */
static const struct {
    const char *key, *size;
} sizes[] = {{"contextual", "score_max_positions"}, {"adaptive", "score_hidden_units"}};

/* out = "adaptive: "concat-residual", score_hidden_units: 32", what config.json says of such tensors; "" = nothing. */
static void keys_of(const audit *a, const gyre_stored_position *t, char out[MAX_KEYS]) {
    const char *keys[2] = {t->key, NULL};
    size_t length = 0;
    *out = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (strcmp(t->key, sizes[i].key) == 0) keys[1] = sizes[i].size;
    for (int k = 0; k < 2 && keys[k]; k++) {
        char text[AUDIT_VALUE];
        const json_t *value = json_object_get(a->config.root, keys[k]);
        if (!value || json_is_false(value) || json_is_null(value)) {
            if (k == 0) return;
            continue;
        }
        audit_value_text(value, text);
        length += (size_t)snprintf(out + length, MAX_KEYS - length, "%s%s: %s", length ? ", " : "", keys[k], text);
    }
}

typedef struct named_tensor {
    const char *name; /* without its layer */
    int64_t index;    /* in the list of stored tensors */
} named_tensor;

/* Tensors of one name in the order of their list. */
static int by_name(const void *a, const void *b) {
    const named_tensor *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Sorted, because a checkpoint may have a million such tensors.  Errors: ENOMEM. */
/* *out = [count of stored tensors] layers that have a tensor of the name; 0 = not its first.  The caller frees it. */
static gyre_status count_layers(const audit *a, const gyre_stored_positions *stored, int64_t **out, gyre_error *err) {
    const size_t room = (size_t)stored->count + 1;
    named_tensor *list = calloc(room, sizeof *list);
    int64_t *layers = *out = calloc(room, sizeof *layers);
    if (!list || !layers) {
        free(list);
        free(layers);
        (void)audit_no_memory(a, err);
        return GYRE_ENOMEM;
    }
    size_t count = 0;
    for (int64_t i = 0; i < stored->count; i++)
        if (stored->tensors[i].kind == GYRE_STORED_POSITION_TRAINED)
            list[count++] = (named_tensor){after_layer(stored->tensors[i].name), i};
    qsort(list, count, sizeof *list, by_name);
    for (size_t i = 0, first = 0; i < count; i++) {
        if (strcmp(list[i].name, list[first].name) != 0) first = i;
        layers[list[first].index]++;
    }
    free(list);
    return GYRE_OK;
}

/* One finding for a tensor of all layers; their shapes are held against the config with those of all weights. */
static void note_trained(audit *a, const gyre_stored_position *t, int64_t layers) {
    const char *name = after_layer(t->name);
    char keys[MAX_KEYS];
    if (layers == 0) return;
    keys_of(a, t, keys);
    audit_finding *f = audit_add(
        a, *keys ? AUDIT_OK : AUDIT_NOTE, "tables",
        "%s: positions that %" PRId64 " layer%s trained, %" PRId64 " x %" PRId64 " numbers each; %s%s%s", name, layers,
        layers == 1 ? "" : "s", t->shape[0], t->rank > 1 ? t->shape[1] : 1, *keys ? "config.json says what they are (" : "",
        keys, *keys ? "), and the weights alone hold their values" : "config.json says nothing of them");
    f->count = (int)layers;
    audit_set_place(f, "%s", t->file);
}

static gyre_status check_stored(audit *a, const gyre_stored_positions *stored, gyre_error *err) {
    const int from = a->count;
    int64_t *layers;
    gyre_status status = count_layers(a, stored, &layers, err);
    if (status) return status;
    for (int64_t i = 0; i < stored->count && !status; i++) {
        const gyre_stored_position *t = &stored->tensors[i];
        const gyre_layer_reading *group = group_of(a->reading, t);
        if (t->kind == GYRE_STORED_POSITION_TRAINED)
            note_trained(a, t, layers[i]);
        else if (!group)
            audit_add(a, AUDIT_NOTE, "tables", "%s: of a layer that the config does not describe", t->name);
        else if (t->kind == GYRE_STORED_POSITION_FREQUENCIES)
            status = check_frequencies(a, t, group, err);
        else
            status = check_table(a, t, group, err);
    }
    free(layers);
    if (stored->count == 0)
        audit_add(a, AUDIT_OK, "tables", "none of %" PRId64 " tensors holds positions", stored->tensors_in_all);
    return status ? status : audit_group(a, from, err);
}

/* -- all tensors -- */
/* kind: of each finding. */
static gyre_status add_faults(audit *a, audit_status kind, const gyre_weight_faults *faults, gyre_error *err) {
    const int from = a->count;
    int64_t more = faults->in_all - faults->count;
    for (int64_t i = 0; i < faults->count; i++)
        audit_add_error(a, kind, "weights", faults->texts[i]);
    const gyre_status status = audit_group(a, from, err);
    if (status) return status;
    for (; a->count > from + MAX_NAMED; a->count--)
        more += a->findings[a->count - 1].count;
    audit_recount(a);
    if (more > 0)
        audit_add(a, kind, "weights", "and %" PRId64 " more tensors, of these layers or of others", more)->count = (int)more;
    return GYRE_OK;
}

/* What of the shapes was not looked at, and what is right. */
static void add_rest(audit *a, const gyre_weight_faults *faults) {
    char why[AUDIT_TEXT];
    snprintf(why, sizeof why, "shapes of the tensors: %s", faults->why);
    if (faults->unchecked && !a->reading && faults->parameters)
        audit_add(a, AUDIT_LEFT_OUT, "weights", "the rows of a table of positions: the config is refused");
    else if (faults->unchecked) /* the config part has said why a config is refused */
        audit_add_error(a, faults->unchecked == GYRE_EUNSUPPORTED || !a->reading ? AUDIT_LEFT_OUT : AUDIT_WRONG, "weights",
                        why);
    if (faults->unread > 1)
        audit_add(a, AUDIT_LEFT_OUT, "weights", "%s; and %" PRId64 " more such tensors", faults->unread_text,
                  faults->unread - 1);
    else if (faults->unread)
        audit_add_error(a, AUDIT_LEFT_OUT, "weights", faults->unread_text);
    if (faults->aside)
        audit_add(a, AUDIT_LEFT_OUT, "weights",
                  "%" PRId64
                  " tensor%s beside the language model (%.100s%s): Gyre does not run them, nor checks their shapes",
                  faults->aside, faults->aside > 1 ? "s" : "", faults->aside_first, faults->aside > 1 ? ", ..." : "");
    if (faults->in_all == 0 && faults->parameters > 0)
        audit_add(a, AUDIT_OK, "weights", "%" PRId64 " weights, of the shapes that the config says; all %sare finite",
                  faults->parameters, faults->unread ? "that Gyre reads " : "");
    else if (faults->in_all == 0 && !faults->unread)
        audit_add(a, AUDIT_OK, "weights", "all numbers are finite");
}

/* Files that cannot be read at all.  What the check of the config has said of the same is not said twice. */
static void add_unopened(audit *a, const gyre_error *why) {
    if (!a->reading && strcmp(why->text, a->refused.text) == 0) {
        audit_add(a, AUDIT_LEFT_OUT, "weights", "no tensor is checked: the config cannot be read");
        return;
    }
    const audit_finding *f = audit_add_error(a, AUDIT_WRONG, "weights", why->text);
    for (int i = 0; i < a->count - 1; i++) {
        audit_finding *earlier = &a->findings[i];
        if (earlier->status != AUDIT_DOUBT || strcmp(earlier->check, "config") != 0 || !strstr(earlier->text, f->text))
            continue;
        snprintf(earlier->text, sizeof earlier->text, "%s", f->text);
        snprintf(earlier->place, sizeof earlier->place, "%s", f->place);
        earlier->status = AUDIT_WRONG, earlier->check = "weights";
        if (f != &a->spare) a->count--;
        audit_recount(a);
        return;
    }
}

/* Weights that overflow, in programs that run the model in f16 or in all. */
static gyre_status check_magnitudes(audit *a, gyre_error *err) {
    gyre_weight_faults *doubts;
    gyre_status status = gyre_weight_doubts_open(&doubts, a->path, MAX_FAULTS, err);
    if (status) return status;
    const int from = a->count;
    status = add_faults(a, AUDIT_DOUBT, doubts, err);
    for (int i = from; i < a->count; i++)
        audit_set_remedy(&a->findings[i], "trained weights are smaller by far: compare the file with its source");
    gyre_weight_faults_free(doubts);
    return status;
}

/* *opens = 1 if the files can be read at all. */
static gyre_status check_tensors(audit *a, int *opens, gyre_error *err) {
    gyre_weight_faults *faults = NULL;
    gyre_error why = {0, ""};
    gyre_status status = gyre_weight_faults_open(
        &faults, a->path, GYRE_ARGS(gyre_reading_options, .profile = a->profile, .context_length = a->length), MAX_FAULTS,
        &why);
    if (audit_is_failure(status)) {
        *err = why;
        return status;
    }
    if (status) {
        add_unopened(a, &why);
        return GYRE_OK;
    }
    *opens = 1;
    a->vocab = faults->vocab;
    a->runs = faults->in_all == 0 && !faults->unchecked && !faults->unread;
    status = add_faults(a, AUDIT_WRONG, faults, err);
    add_rest(a, faults);
    gyre_weight_faults_free(faults);
    return status ? status : check_magnitudes(a, err);
}

/* The tensors that hold positions, if the files can be read. */
static gyre_status check_positions(audit *a, gyre_error *err) {
    gyre_stored_positions *stored = NULL;
    gyre_error why = {0, ""};
    gyre_status status = gyre_stored_positions_open(&stored, a->path, &why);
    if (audit_is_failure(status)) {
        *err = why;
        return status;
    }
    if (status) {
        /* check_tensors has reported it. */
        audit_add(a, AUDIT_LEFT_OUT, "tables", "%s", why.text);
        return GYRE_OK;
    }
    if (a->reading || stored->count == 0)
        status = check_stored(a, stored, err);
    else
        audit_add(a, AUDIT_LEFT_OUT, "tables", "%" PRId64 " tensor%s positions: not compared, because the config is refused",
                  stored->count, stored->count == 1 ? " holds" : "s hold");
    gyre_stored_positions_free(stored);
    return status;
}

gyre_status audit_weights(audit *a, gyre_error *err) {
    if (!a->is_gguf && !*a->folder) {
        audit_add(a, AUDIT_LEFT_OUT, "weights", "only a config.json: no weights to check");
        return GYRE_OK;
    }
    int opens = 0, missing = 0, whole = 0, index = 0;
    gyre_status status = audit_find_file(a, "model.safetensors", &whole, err);
    if (!status) status = audit_find_file(a, "model.safetensors.index.json", &index, err);
    if (status) return status;
    if (!a->is_gguf && !whole && !index) {
        audit_add(a, AUDIT_LEFT_OUT, "weights", "no model.safetensors in the folder, nor an index of several");
        return GYRE_OK;
    }
    if (index && !whole) status = audit_shards(a, &missing, err);
    if (!status && !missing) status = check_tensors(a, &opens, err);
    /* Names and shapes are there in a GGUF that is cut short. */
    return status || !(opens || a->is_gguf) ? status : check_positions(a, err);
}
