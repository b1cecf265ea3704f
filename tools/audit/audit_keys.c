/* audit_keys.c: keys about positions that no reader takes a position from: misspelt ones, and those of other families. */
#include "gyre/gyre_fields.h"
#include "tools/audit/audit.h"
#include "tools/explain/explain_format.h"
#include "util/path.h"
#include "util/suggest.h"
#include <string.h>

enum { MAX_KEY = 200, SHORT_NAME = 7, MAX_DEPTH = 4 };

/* -- names -- */
/* Keys beside the others of a model: what a misspelt one is near to. */
static const char *const root_keys[] = {"alibi_bias_max",
                                        "attention_chunk_size",
                                        "attention_window_size",
                                        "compress_rope_theta",
                                        "dual_chunk_attention_config",
                                        "global_rope_theta",
                                        "layer_types",
                                        "local_rope_theta",
                                        "max_decoder_position_embeddings",
                                        "max_encoder_position_embeddings",
                                        "max_position_embeddings",
                                        "max_relative_positions",
                                        "max_sequence_length",
                                        "max_source_positions",
                                        "max_target_positions",
                                        "max_window_layers",
                                        "n_positions",
                                        "no_rope_layer_interval",
                                        "no_rope_layers",
                                        "original_max_position_embeddings",
                                        "partial_rotary_factor",
                                        "position_biased_input",
                                        "position_buckets",
                                        "position_embedding_type",
                                        "qk_nope_head_dim",
                                        "qk_rope_head_dim",
                                        "relative_attention",
                                        "relative_attention_max_distance",
                                        "relative_attention_num_buckets",
                                        "rope_interleave",
                                        "rope_interleaved",
                                        "rope_local_base_freq",
                                        "rope_parameters",
                                        "rope_ratio",
                                        "rope_scaling",
                                        "rope_theta",
                                        "rope_type",
                                        "rotary_dim",
                                        "rotary_emb_base",
                                        "rotary_emb_fraction",
                                        "rotary_pct",
                                        "rotary_value",
                                        "seq_length",
                                        "sliding_window",
                                        "sliding_window_pattern",
                                        "sliding_window_size",
                                        "swa_rope_theta",
                                        "use_dynamic_ntk",
                                        "use_logn_attn",
                                        "use_sliding_window"};
/* Keys within rope_scaling and rope_parameters. */
static const char *const dict_keys[] = {"alpha",
                                        "attention_factor",
                                        "attn_factor",
                                        "beta_fast",
                                        "beta_slow",
                                        "extrapolation_factor",
                                        "factor",
                                        "high_freq_factor",
                                        "llama_4_scaling_beta",
                                        "long_factor",
                                        "long_mscale",
                                        "low_freq_factor",
                                        "mrope_interleaved",
                                        "mrope_section",
                                        "mscale",
                                        "mscale_all_dim",
                                        "original_max_position_embeddings",
                                        "partial_rotary_factor",
                                        "rope_theta",
                                        "rope_type",
                                        "short_factor",
                                        "short_mscale",
                                        "truncate",
                                        "type"};
/* Names of other things that are near to one of those, and keys that are read without a value of their own on the page. */
static const char *const other_keys[] = {"alibi",
                                         "apply_yarn_scaling",
                                         "finetuned",
                                         "indexer_rope_interleave",
                                         "layer_rope_theta",
                                         "layer_type",
                                         "max_relative_position",
                                         "mrope_interleaved",
                                         "no_rope_layer_interval",
                                         "no_rope_layers",
                                         "offset_alibi",
                                         "original_rope",
                                         "partial_rotary_factor",
                                         "partial_rotary_factors",
                                         "position_embeddings_type",
                                         "qk_rope_head_dim",
                                         "rope_axes",
                                         "rope_first",
                                         "rope_interleave",
                                         "rope_interleaved",
                                         "rope_scaling",
                                         "rope_type",
                                         "rotary",
                                         "rotary_ndims",
                                         "rotary_value",
                                         "scale",
                                         "type",
                                         "xdrope_section"};
#define COUNT(names) ((int)(sizeof(names) / sizeof *(names)))

static int is_one_of(const char *key, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(key, names[i]) == 0) return 1;
    return 0;
}

/* out = the known key that `key` is a misspelling of; NULL = none.  Two edits are most of a short name. */
static const char *meant(const char *key, int in_dict) {
    const char *const *names = in_dict ? dict_keys : root_keys;
    const int count = in_dict ? COUNT(dict_keys) : COUNT(root_keys);
    gyre_suggestion best = {NULL, GYRE_SUGGEST_LIMIT};
    if (*key == '_' || is_one_of(key, names, count) || is_one_of(key, other_keys, COUNT(other_keys))) return NULL;
    for (int i = 0; i < count; i++)
        gyre_suggest(&best, key, names[i]);
    return best.name && best.edits > 1 && strlen(best.name) < SHORT_NAME ? NULL : best.name;
}

const char *audit_key_meant(const char *whole) {
    const char *dot = strrchr(whole, '.');
    return meant(dot ? dot + 1 : whole, audit_key_is_in_dict(whole));
}

int audit_key_is_in_dict(const char *whole) {
    return strstr(whole, "rope_scaling.") || strstr(whole, "rope_parameters.");
}

/* -- what was read -- */
static int is_within(const char *key, const char *whole) {
    const size_t length = strlen(whole);
    return key && strncmp(key, whole, length) == 0 && (key[length] == 0 || key[length] == '.');
}

/* out = 1 if a warning of the reading says that the key, or one within it, is unread. */
static int is_said_unread(const gyre_reading *reading, const char *whole) {
    for (int64_t i = 0; i < reading->warnings_count; i++)
        if (reading->warnings[i].kind == GYRE_WARNING_UNREAD_KEY && is_within(reading->warnings[i].key, whole)) return 1;
    return 0;
}

/* out = 1 if a value or another warning of the reading comes from the key, or from one within it.  A key within a rotation
 * that its type does not read is known to the reader. */
static int is_used(const gyre_reading *reading, const char *whole, int in_dict) {
    for (int64_t i = 0; i < reading->warnings_count; i++)
        if ((in_dict || reading->warnings[i].kind != GYRE_WARNING_UNREAD_KEY) && is_within(reading->warnings[i].key, whole))
            return 1;
    for (int64_t g = 0; g < reading->groups_count; g++)
        for (int64_t i = 0; i < reading->groups[g]->fields_count; i++)
            if (is_within(reading->groups[g]->fields[i].key, whole)) return 1;
    return 0;
}

/* In a model without any, keys of a rotation say nothing, and the reading shows it. */
static int rotates(const gyre_reading *reading) {
    for (int64_t g = 0; g < reading->groups_count; g++)
        if (gyre_kind_has(reading->groups[g]->config.kind, GYRE_TRAIT_ROTATES)) return 1;
    return 0;
}

/* Only a rotation has a key for each of its values; other schemes read some in silence.  Of those in a dict some are only
 * held against another (a factor that is the ratio of two lengths). */
static int is_about_rotation(const char *key, int in_dict) {
    return in_dict ? !is_one_of(key, dict_keys, COUNT(dict_keys)) : strstr(key, "rope") || strstr(key, "rotary");
}

/* -- the walk -- */
typedef struct text_place {
    const char *at;
    int64_t line;
} text_place;

typedef struct walk {
    audit *a;
    text_place *place;    /* how far keys were looked up in the text */
    char prefix[MAX_KEY]; /* "text_config." */
    int in_dict, of_tower, depth;
} walk;

static void set_place(const walk *w, audit_finding *f, const char *whole, const char *key) {
    char place[AUDIT_PLACE];
    if (f == &w->a->spare) return;
    explain_format_location(whole, audit_file_next_line(&w->place->at, &w->place->line, key), place, sizeof place);
    audit_set_place(f, "%s", place);
}

static void add_misspelt(const walk *w, const char *whole, const char *key, const char *name) {
    audit_finding *f = audit_add(w->a, AUDIT_DOUBT, "config", "%s: no program reads it; did you mean %s?", whole, name);
    set_place(w, f, whole, key);
    audit_set_remedy(f, "rename %s to %s, or remove it", key, name);
}

static void judge_key(const walk *w, const char *key, const json_t *value) {
    char whole[MAX_KEY];
    const gyre_reading *reading = w->a->reading;
    if (snprintf(whole, sizeof whole, "%s%s", w->prefix, key) >= (int)sizeof whole) return;
    const char *name = meant(key, w->in_dict);
    const int used = reading && is_used(reading, whole, w->in_dict), is_native = strcmp(w->a->model_type, "gyre") == 0;
    if (name && !used) {
        add_misspelt(w, whole, key, name);
        return;
    }
    /* A false or a null says nothing; a reader that refuses the config may have stopped before the key. */
    const int says = !json_is_null(value) && !json_is_false(value) && json_object_size(value) + !json_is_object(value) > 0;
    if (!reading || !rotates(reading) || used || is_said_unread(reading, whole) || !says || w->of_tower || is_native ||
        !is_about_rotation(key, w->in_dict) || is_one_of(key, other_keys, COUNT(other_keys)))
        return;
    set_place(w,
              audit_add(w->a, AUDIT_NOTE, "config", "%s: no value of the positions comes from it, as %s reads the file",
                        whole, gyre_profile_name(reading->profile)),
              whole, key);
}

/* out = 1 for an object that describes a part of the model, or a rotation. */
static int is_entered(const walk *w, const char *key) {
    if (w->in_dict || strcmp(key, "rope_scaling") == 0 || strcmp(key, "rope_parameters") == 0) return 1;
    return (gyre_ends_with(key, "_config") && strcmp(key, "quantization_config") != 0) || strcmp(key, "decoder") == 0;
}

static void walk_object(const walk *w, const json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        walk inside = *w;
        const int enters = json_is_object(value) && is_entered(w, key) && w->depth < MAX_DEPTH;
        /* Within a rotation an object is that of a type of layers. */
        if (!(enters && w->in_dict)) judge_key(w, key, value);
        if (!enters || snprintf(inside.prefix, sizeof inside.prefix, "%s%s.", w->prefix, key) >= MAX_KEY) continue;
        inside.in_dict = w->in_dict || gyre_ends_with(key, "rope_scaling") || gyre_ends_with(key, "rope_parameters");
        inside.of_tower = w->of_tower || strstr(key, "vision") || strstr(key, "audio");
        inside.depth++;
        walk_object(&inside, value);
    }
}

void audit_keys(audit *a) {
    text_place place = {a->config.text, 1};
    const walk whole = {.a = a, .place = &place};
    if (a->config.root) walk_object(&whole, a->config.root);
}
