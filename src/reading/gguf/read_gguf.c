/* read_gguf.c: the positions of the layers of a GGUF file. */
#include "reading/family.h"
#include "reading/gguf/gguf_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LAYERS = 1 << 16, MAX_HEADS = 1 << 16, LLAMA4_WINDOW = 8192, T5_MAX_DISTANCE = 128 };

static int has_trait(const gyre_gguf_source *s, unsigned trait) {
    return (s->architecture.traits & trait) != 0;
}
static int failed(const gyre_gguf_source *s) {
    return !!gyre_build_status(s->build);
}

/* -- architectures -- */
#define ARCHITECTURE(name, pairs, period, traits) {name, period, GYRE_GGUF_##pairs, traits},
static const gyre_gguf_architecture architectures[] = {
#include "reading/gguf/gguf_architectures.def"
};
#undef ARCHITECTURE

static int is_same_name(const char *a, const char *b) {
    while (*a && (*a == *b || ((*a == '-' || *a == '_') && (*b == '-' || *b == '_'))))
        a++, b++;
    return *a == *b;
}

const gyre_gguf_architecture *gyre_gguf_architecture_named(const char *name) {
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++)
        if (is_same_name(architectures[i].name, name)) return &architectures[i];
    return NULL;
}

/* out = 1 if some key describes a rotation. */
static int has_rope_keys(const gyre_gguf_source *s) {
    char prefix[80];
    const size_t bytes = (size_t)snprintf(prefix, sizeof prefix, "%s.rope.", s->name);
    for (int64_t i = 0; i < s->file->kv_count; i++) {
        const gyre_gguf_kv *pair = &s->file->kvs[i];
        if (pair->key_bytes > bytes && memcmp(pair->key, prefix, bytes) == 0) return 1;
    }
    return gyre_gguf_find_tensor(s->file, "rope_freqs.weight") != NULL;
}

static void use_unknown_architecture(gyre_gguf_source *s, const gyre_place *place) {
    if (!has_rope_keys(s)) {
        gyre_build_fail(s->build, GYRE_EUNSUPPORTED, place,
                        "general.architecture: \"%s\" is not known, and there is no key %s.rope.*", s->name, s->name);
        return;
    }
    s->architecture = (gyre_gguf_architecture){s->name, 0, GYRE_GGUF_NORM, 0};
    gyre_build_doubt(s->build, GYRE_WARNING_ASSUMED, place,
                     "general.architecture: \"%s\" is not known; read as a rotation of pairs (2i, 2i + 1), layout "
                     "interleaved, in all layers: what llama.cpp does is in its code and not in the file",
                     s->name);
}

static void read_architecture(gyre_gguf_source *s) {
    const gyre_gguf_kv *pair = gyre_gguf_find_key(s->file, "general.architecture");
    const gyre_place place = {"general.architecture", 0, pair ? pair->offset : 0};
    if (!pair || pair->value.type != GYRE_GGUF_STRING || pair->value.count == 0 || pair->value.count >= sizeof s->name) {
        gyre_build_fail(s->build, GYRE_EFORMAT, &place, "general.architecture: %s",
                        pair ? "not a word of up to 63 characters" : "missing");
        return;
    }
    memcpy(s->name, pair->value.data, (size_t)pair->value.count);
    for (const char *c = s->name; c < s->name + pair->value.count; c++)
        if (*c <= ' ' || *c > '~') {
            gyre_build_fail(s->build, GYRE_EFORMAT, &place, "general.architecture: character %d is not a letter",
                            (int)(c - s->name));
            return;
        }
    gyre_build_set_model_type(s->build, s->name);
    const gyre_gguf_architecture *known = gyre_gguf_architecture_named(s->name);
    if (!known) {
        use_unknown_architecture(s, &place);
        return;
    }
    s->architecture = *known;
    if (has_trait(s, GYRE_GGUF_LAYOUT_ONLY))
        gyre_build_doubt(s->build, GYRE_WARNING_ASSUMED, &place,
                         "general.architecture: of \"%s\" only llama.cpp's layout of pairs is known; all layers are assumed "
                         "to rotate alike and without a window",
                         s->name);
}

/* -- fields of any kind -- */
static void note_kind(const gyre_gguf_source *s, gyre_layer_group *group, const char *kind) {
    gyre_build_set_kind(s->build, group, kind, NULL);
    group->config.heads = s->heads;
    group->config.trained_length = s->context;
    gyre_gguf_note_number(s, group, "trained_length", "context_length", GYRE_ORIGIN_READER, (double)s->context, NULL);
}

static void note_softcaps(const gyre_gguf_source *s, gyre_layer_group *group) {
    static const struct {
        const char *field, *suffix;
    } rest[] = {{"attention_softcap", "attn_logit_softcapping"},
                {"final_softcap", "final_logit_softcapping"},
                {"clamp_kqv", "attention.clamp_kqv"}};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        const double x = gyre_gguf_read_real(s, rest[i].suffix, 0);
        if (x != 0) gyre_gguf_note_number(s, group, rest[i].field, rest[i].suffix, GYRE_ORIGIN_FILE, x, NULL);
    }
}

static void add_all_layers(const gyre_gguf_source *s, gyre_layer_group *group, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        gyre_build_add_layer(s->build, group, i);
}

/* -- kinds without rotation -- */
static void read_nope(const gyre_gguf_source *s, const char *name) {
    gyre_layer_group *group = gyre_build_add_group(s->build, name);
    note_kind(s, group, "nope");
    add_all_layers(s, group, s->blocks);
    note_softcaps(s, group);
}

static void read_learned_table(const gyre_gguf_source *s) {
    static const char name[] = "position_embd.weight";
    gyre_layer_group *group = gyre_build_add_group(s->build, "all");
    const gyre_gguf_tensor *tensor = gyre_gguf_find_tensor(s->file, name);
    const gyre_place place = {name, 0, tensor ? tensor->info_offset : 0};
    note_kind(s, group, "learned");
    group->config.input.dim = s->embedding;
    group->config.input.positions = s->context;
    if (s->embedding == 0) gyre_gguf_fail(s, GYRE_EFORMAT, "embedding_length", "missing");
    if (tensor && (tensor->rank != 2 || tensor->dims[0] != (uint64_t)s->embedding || tensor->dims[1] > INT32_MAX))
        gyre_build_fail(s->build, GYRE_EFORMAT, &place, "%s: not rows of embedding_length numbers", name);
    if (failed(s)) return;
    if (tensor) {
        group->config.input.positions = (int64_t)tensor->dims[1];
        gyre_build_set_number(s->build, group, "positions", GYRE_ORIGIN_FILE, &place, NULL, (double)tensor->dims[1]);
    } else {
        gyre_gguf_note_number(s, group, "positions", "context_length", GYRE_ORIGIN_READER, (double)s->context, NULL);
    }
    add_all_layers(s, group, s->blocks);
    note_softcaps(s, group);
}

static void read_alibi(const gyre_gguf_source *s) {
    const char *key = has_trait(s, GYRE_GGUF_READS_MAX_BIAS) ? "attention.max_alibi_bias" : NULL;
    const double max_bias = key ? gyre_gguf_read_real(s, key, 0) : 8;
    if (max_bias == 0 && !failed(s)) { /* MPT without ALiBi has a table */
        read_learned_table(s);
        return;
    }
    gyre_layer_group *group = gyre_build_add_group(s->build, "all");
    note_kind(s, group, "alibi");
    if (key && !(max_bias > 0)) gyre_gguf_fail(s, GYRE_EFORMAT, key, "%g is below 0", max_bias);
    if (s->heads == 0) gyre_gguf_fail(s, GYRE_EFORMAT, "attention.head_count", "missing");
    group->config.score.max_bias = max_bias;
    gyre_gguf_note_number(s, group, "max_bias", key, GYRE_ORIGIN_FAMILY, max_bias, NULL);
    gyre_gguf_note_number(s, group, "heads", "attention.head_count", GYRE_ORIGIN_READER, (double)s->heads, NULL);
    add_all_layers(s, group, s->blocks);
    note_softcaps(s, group);
}

static void read_t5_stack(const gyre_gguf_source *s, const char *name, int bidirectional, int64_t blocks) {
    const char *key = "attention.relative_buckets_count";
    gyre_layer_group *group = gyre_build_add_group(s->build, name);
    note_kind(s, group, "t5");
    struct gyre_score_config *score = &group->config.score;
    score->buckets = gyre_gguf_read_size(s, key, 1, -1);
    score->max_distance = T5_MAX_DISTANCE;
    score->bidirectional = bidirectional;
    group->scale = 1;
    if (s->heads == 0) gyre_gguf_fail(s, GYRE_EFORMAT, "attention.head_count", "missing");
    gyre_gguf_note_number(s, group, "buckets", key, GYRE_ORIGIN_READER, (double)score->buckets, NULL);
    gyre_build_set_number(s->build, group, "max_distance", GYRE_ORIGIN_READER, NULL, "a GGUF has no key for another value",
                          T5_MAX_DISTANCE);
    gyre_build_set_field(s->build, group, "bidirectional", GYRE_ORIGIN_FAMILY, NULL, NULL, "%s",
                         bidirectional ? "true" : "false");
    gyre_gguf_note_number(s, group, "scale", NULL, GYRE_ORIGIN_FAMILY, 1, "T5 does not divide its scores");
    add_all_layers(s, group, blocks);
}

static void read_t5_buckets(const gyre_gguf_source *s) {
    read_t5_stack(s, has_trait(s, GYRE_GGUF_ENCODER_DECODER) ? "encoder" : "all", 1, s->blocks);
    if (!has_trait(s, GYRE_GGUF_ENCODER_DECODER)) return;
    const int64_t blocks = gyre_gguf_read_size(s, "decoder_block_count", 0, s->blocks);
    if (blocks > MAX_LAYERS) gyre_gguf_fail(s, GYRE_EFORMAT, "decoder_block_count", "more than %d layers", MAX_LAYERS);
    if (!failed(s)) read_t5_stack(s, "decoder", 0, blocks);
}

/* -- which layers have a window, and which rotate -- */
static const char window_key[] = "attention.sliding_window", pattern_key[] = "attention.sliding_window_pattern";

typedef struct swa_pattern {
    int64_t window; /* 0 = none */
    int64_t period;
    const gyre_gguf_value *per_layer; /* array, nonzero for layers with the window; NULL = see the period */
} swa_pattern;

static swa_pattern read_swa_pattern(const gyre_gguf_source *s) {
    const int64_t usual = has_trait(s, GYRE_GGUF_WINDOW_4096) ? 4096 : has_trait(s, GYRE_GGUF_CHUNKED) ? LLAMA4_WINDOW : 0;
    swa_pattern l = {gyre_gguf_read_size(s, window_key, 0, usual), s->architecture.period, NULL};
    const gyre_gguf_kv *pattern = gyre_gguf_find_arch_key(s, pattern_key);
    if (l.period == 0 || (has_trait(s, GYRE_GGUF_WINDOW_AT_64) && s->blocks != 64)) {
        if (l.window > 0 && !s->reference)
            gyre_gguf_warn(s, window_key, "%" PRId64 " is not read: in llama.cpp every layer of a %s sees all", l.window,
                           s->name);
        if (l.period == 0 && s->reference) return l; /* all layers have the window */
        l.window = 0;
    }
    if (l.window == 0) l.period = 0;
    if (l.period == 0 || !pattern) return l;
    if (pattern->value.type == GYRE_GGUF_ARRAY)
        l.per_layer = &pattern->value;
    else
        l.period = gyre_gguf_read_size(s, pattern_key, 0, l.period);
    if (l.period > MAX_LAYERS) gyre_gguf_fail(s, GYRE_EFORMAT, pattern_key, "more than %d layers", MAX_LAYERS);
    if (l.per_layer && l.per_layer->count < (uint64_t)s->blocks)
        gyre_gguf_fail(s, GYRE_EFORMAT, pattern_key, "%" PRIu64 " elements for %" PRId64 " layers", l.per_layer->count,
                       s->blocks);
    int64_t x;
    for (int64_t i = 0; l.per_layer && i < s->blocks && !failed(s); i++)
        if (!gyre_gguf_integer(l.per_layer, (uint64_t)i, &x))
            gyre_gguf_fail(s, GYRE_EFORMAT, pattern_key, "element %" PRId64 " is not a whole number", i);
    return l;
}

static int is_sliding_layer(const gyre_gguf_source *s, const swa_pattern *l, int64_t layer) {
    int64_t x = 0;
    if (l->per_layer) return gyre_gguf_integer(l->per_layer, (uint64_t)layer, &x) && x != 0;
    if (l->window == 0) return 0;
    if (l->period == 0) return 1;
    return has_trait(s, GYRE_GGUF_DENSE_FIRST) ? layer % l->period != 0 : layer % l->period < l->period - 1;
}

/* Recurrent layers have no positions and are listed nowhere. */
static int is_attention_layer(const gyre_gguf_source *s, int64_t every, int64_t layer) {
    const gyre_gguf_kv *heads = gyre_gguf_find_arch_key(s, "attention.head_count_kv");
    int64_t x = 1;
    if (heads && heads->value.type == GYRE_GGUF_ARRAY && gyre_gguf_integer(&heads->value, (uint64_t)layer, &x) && x == 0)
        return 0;
    return layer % every == every - 1;
}

/* Every how many layers one attends. */
static int64_t read_attention_interval(const gyre_gguf_source *s) {
    static const char key[] = "full_attention_interval";
    const int64_t every = gyre_gguf_read_size(s, key, 1, has_trait(s, GYRE_GGUF_ATTENTION_EVERY_FOURTH) ? 4 : 1);
    if (every > MAX_LAYERS) gyre_gguf_fail(s, GYRE_EFORMAT, key, "more than %d layers", MAX_LAYERS);
    return every;
}

/* Granite's converter lists which layers rotate. */
static const char rope_pattern_key[] = "attention.rope_pattern";

static int rotates_by_list(const gyre_gguf_source *s, int64_t layer) {
    const gyre_gguf_kv *listed = gyre_gguf_find_arch_key(s, rope_pattern_key);
    int64_t x = 1;
    if (!listed || listed->value.type != GYRE_GGUF_ARRAY || (uint64_t)layer >= listed->value.count) return 1;
    if (gyre_gguf_integer(&listed->value, (uint64_t)layer, &x)) return x != 0;
    gyre_gguf_fail(s, GYRE_EFORMAT, rope_pattern_key, "element %" PRId64 " is not a whole number", layer);
    return 1;
}

/* At most four kinds of layers, numbered by the sum of these. */
enum { SLIDING = 1, NO_ROPE = 2, LAYER_KINDS = 4 };

static int layer_kind_of(const gyre_gguf_source *s, const swa_pattern *l, int64_t layer) {
    const int slides = is_sliding_layer(s, l, layer);
    int no_rope = 0;
    if (has_trait(s, GYRE_GGUF_SLIDING_ROPE)) no_rope = l->window > 0 && !slides;
    /* Llama 4 without a window rotates in all layers. */
    if (has_trait(s, GYRE_GGUF_NOPE_EVERY_FOURTH))
        no_rope = layer % 4 == 3 && !(has_trait(s, GYRE_GGUF_CHUNKED) && l->window == 0);
    no_rope |= !rotates_by_list(s, layer);
    return (slides ? SLIDING : 0) | (no_rope ? NO_ROPE : 0);
}

static const char *name_of(const gyre_gguf_source *s, const swa_pattern *l, int kind) {
    if (l->window > 0 && l->period > 0)
        return !(kind & SLIDING)                 ? "full_attention"
               : has_trait(s, GYRE_GGUF_CHUNKED) ? "chunked_attention"
                                                 : "sliding_attention";
    return kind & NO_ROPE ? "nope" : "rope";
}

static void set_window(const gyre_gguf_source *s, gyre_layer_group *group, const swa_pattern *l) {
    group->window = l->window;
    gyre_gguf_note_number(s, group, "window", window_key, GYRE_ORIGIN_FAMILY, (double)l->window,
                          has_trait(s, GYRE_GGUF_CHUNKED) ? GYRE_CHUNK_NOTE : NULL);
}

/* Llama 4's layers without rotation scale their queries by position instead. */
static void set_llama4_temperature(const gyre_gguf_source *s, gyre_layer_group *group) {
    group->config.query = (struct gyre_query_config){GYRE_TEMPERATURE_LLAMA4, LLAMA4_WINDOW, 0.1};
    gyre_build_set_field(s->build, group, "query_temperature", GYRE_ORIGIN_FAMILY, NULL, NULL, "llama4");
    gyre_build_set_number(s->build, group, "temperature_length", GYRE_ORIGIN_FAMILY, NULL, NULL, LLAMA4_WINDOW);
    gyre_build_set_number(s->build, group, "temperature_slope", GYRE_ORIGIN_FAMILY, NULL, NULL, 0.1);
}

static gyre_layer_group *add_group(const gyre_gguf_source *s, const swa_pattern *l, int kind, const char *name) {
    gyre_layer_group *group = gyre_build_add_group(s->build, name);
    if (kind & NO_ROPE) {
        note_kind(s, group, "nope");
        if (has_trait(s, GYRE_GGUF_CHUNKED)) set_llama4_temperature(s, group);
    } else {
        gyre_gguf_read_rotation(s, group, (kind & SLIDING) != 0 && s->architecture.period > 0);
    }
    if (kind & SLIDING) set_window(s, group, l);
    note_softcaps(s, group);
    return group;
}

static void read_rope_layers(const gyre_gguf_source *s) {
    gyre_layer_group *groups[LAYER_KINDS] = {NULL};
    const swa_pattern l = read_swa_pattern(s);
    if (failed(s)) return;
    const int64_t every = read_attention_interval(s), period = l.period > every ? l.period : every;
    const int64_t sampled_layers =
        s->blocks ? s->blocks : 2 * (period > 4 ? period : 4); /* enough to have some of each kind */
    int kinds = 0, seen[LAYER_KINDS] = {0};
    for (int64_t i = 0; i < sampled_layers && !failed(s); i++)
        if (is_attention_layer(s, every, i)) seen[layer_kind_of(s, &l, i)] = 1;
    for (int kind = 0; kind < LAYER_KINDS; kind++)
        kinds += seen[kind];
    for (int kind = 0; kind < LAYER_KINDS && !failed(s); kind++)
        if (seen[kind]) groups[kind] = add_group(s, &l, kind, kinds > 1 ? name_of(s, &l, kind) : "all");
    for (int64_t i = 0; i < s->blocks && !failed(s); i++)
        if (is_attention_layer(s, every, i)) gyre_build_add_layer(s->build, groups[layer_kind_of(s, &l, i)], i);
    if (failed(s)) return;
    if (kinds == 0) {
        read_nope(s, "all");
        return;
    }
    gyre_gguf_warn_rotation(s);
    gyre_build_sort_groups(s->build);
}

/* -- the file -- */
static void read_sizes(gyre_gguf_source *s) {
    s->context = gyre_gguf_read_size(s, "context_length", 1, s->architecture.pairs == GYRE_GGUF_NONE ? 0 : -1);
    s->blocks = gyre_gguf_read_size(s, "block_count", 0, 0);
    s->embedding = gyre_gguf_read_size(s, "embedding_length", 1, 0);
    s->heads = gyre_gguf_read_size(s, "attention.head_count", 0, 0);
    s->original_length = gyre_gguf_read_size(s, "rope.scaling.original_context_length", 1, s->context);
    if (s->heads > MAX_HEADS) gyre_gguf_fail(s, GYRE_EFORMAT, "attention.head_count", "more than %d heads", MAX_HEADS);
    if (s->blocks > MAX_LAYERS) gyre_gguf_fail(s, GYRE_EFORMAT, "block_count", "more than %d layers", MAX_LAYERS);
    if (s->context > INT32_MAX) gyre_gguf_fail(s, GYRE_EFORMAT, "context_length", "more than 2^31 - 1 tokens");
    if (s->original_length > INT32_MAX)
        gyre_gguf_fail(s, GYRE_EFORMAT, "rope.scaling.original_context_length", "more than 2^31 - 1 tokens");
}

static void read_positions(gyre_gguf_source *s) {
    s->rotates_nothing = s->architecture.pairs == GYRE_GGUF_NONE;
    if (has_trait(s, GYRE_GGUF_READS_FINETUNED) && !gyre_gguf_read_flag(s, "rope.scaling.finetuned", 1)) {
        s->rotates_nothing = 1;
        read_nope(s, "all");
        return;
    }
    if (has_trait(s, GYRE_GGUF_ALIBI_AT_40) && s->blocks == 40) {
        s->rotates_nothing = 1;
        read_alibi(s);
        return;
    }
    switch (s->architecture.pairs) {
    case GYRE_GGUF_LEARNED:
        read_learned_table(s);
        break;
    case GYRE_GGUF_ALIBI:
        read_alibi(s);
        break;
    case GYRE_GGUF_BUCKETS:
        read_t5_buckets(s);
        break;
    case GYRE_GGUF_NONE:
        read_nope(s, "all");
        break;
    default:
        read_rope_layers(s);
    }
}

/* Positions are keys, which a file that ends within its tensors has all the same. */
static void warn_if_cut(const gyre_gguf_source *s) {
#if defined(GYRE_GGUF_HEADS) /* a page gives the head of a file that its memory cannot hold */
    (void)s;
#else
    gyre_error why = {0, ""};
    if (gyre_gguf_check_whole(s->file, &why)) gyre_build_warn(s->build, &(gyre_place){NULL, 0, why.offset}, "%s", why.text);
#endif
}

void gyre_read_gguf(gyre_build *build, const unsigned char *bytes, size_t size, int mapped) {
    const gyre_profile profile = gyre_build_profile(build);
    if (profile != GYRE_PROFILE_LLAMA_CPP && profile != GYRE_PROFILE_REFERENCE) {
        gyre_build_fail(build, GYRE_EUNSUPPORTED, NULL, "GGUF: %s does not read it; llama.cpp and reference do",
                        gyre_profile_name(profile));
        return;
    }
    gyre_gguf *file = NULL;
    gyre_error err = {0, ""};
    const gyre_status status = gyre_gguf_open_head(&file, bytes, size, mapped, &err);
    if (status) {
        gyre_build_fail(build, status, &(gyre_place){NULL, 0, err.offset}, "%s", err.text);
        return;
    }
    gyre_gguf_source s = {.build = build, .file = file, .reference = profile == GYRE_PROFILE_REFERENCE};
    s.was_read = calloc((size_t)file->kv_count + 1, 1);
    if (!s.was_read) gyre_build_fail(build, GYRE_ENOMEM, NULL, "GGUF: no memory for %" PRId64 " keys", file->kv_count);
    if (!failed(&s)) read_architecture(&s);
    if (!failed(&s)) read_sizes(&s);
    if (!failed(&s)) read_positions(&s);
    if (!failed(&s)) gyre_gguf_warn_unread_keys(&s);
    if (!failed(&s)) warn_if_cut(&s);
    free(s.was_read);
    gyre_gguf_free(file);
}
