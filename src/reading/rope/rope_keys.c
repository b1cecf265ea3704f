/* rope_keys.c: the keys from which programs read the base, the rotating fraction of the head and the scaling. */
#include "reading/rope/mlx_class.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* -- names of sizes -- */
const char *gyre_rope_heads_key(const gyre_scope *root) {
    static const char *const names[] = {"num_attention_heads",         "n_head", "n_heads", "num_heads",
                                        "decoder_num_attention_heads", NULL};
    return gyre_scope_first(root, names);
}
const char *gyre_rope_layers_key(const gyre_scope *root) {
    static const char *const names[] = {"num_hidden_layers",         "n_layer", "n_layers", "num_layers",
                                        "decoder_num_hidden_layers", NULL};
    return gyre_scope_first(root, names);
}
const char *gyre_rope_model_dim_key(const gyre_scope *root) {
    static const char *const names[] = {"hidden_size", "n_embd", "d_model", NULL};
    return gyre_scope_first(root, names);
}
const char *gyre_rope_length_key(const gyre_scope *root) {
    static const char *const names[] = {"max_position_embeddings", "n_positions",      "seq_length", "max_seq_len",
                                        "max_sequence_length",     "model_max_length", NULL};
    return gyre_scope_first(root, names);
}

int64_t gyre_rope_read_channels(const gyre_scope *s, const char *key, int64_t minimum, int64_t fallback) {
    const int64_t maximum = 65536, channels = gyre_scope_integer(s, key, minimum, fallback);
    if (channels <= maximum) return channels;
    gyre_scope_fail(s, GYRE_EFORMAT, key, "%" PRId64 " channels; the most of a head is %" PRId64, channels, maximum);
    return minimum > 0 ? minimum : 1;
}

/* -- which object -- */
enum { MAX_DROPPED_KEYS = 20 }; /* each with its own warning */
enum { MAX_ROPE_KEYS = 256 };   /* kinds of layers or members of a scaling; the largest that is known has 14 */

int gyre_rope_is_layer_type(const char *name) {
    static const char *const types[] = {"full_attention",
                                        "sliding_attention",
                                        "chunked_attention",
                                        "linear_attention",
                                        "local_attention",
                                        "window_attention",
                                        "indexed_attention",
                                        "compressed_sparse_attention",
                                        "heavily_compressed_attention",
                                        "minimax_m3_sparse",
                                        "reference_sliding_attention",
                                        "attention",
                                        "hybrid",
                                        "hybrid_sliding",
                                        "main",
                                        "compress",
                                        NULL};
    for (int i = 0; types[i]; i++)
        if (strcmp(types[i], name) == 0) return 1;
    return 0;
}

/* out = the names in layer_types, as keys: both that list and a dict may be as long as a stranger likes.  NULL if memory
 * runs out. */
static json_t *listed_types(const gyre_scope *root) {
    const json_t *list = gyre_scope_value(root, "layer_types"), *type;
    json_t *names = json_object();
    size_t i;
    json_array_foreach((json_t *)list, i, type) {
        if (!json_is_string(type) || !names || json_object_set_new(names, json_string_value(type), json_true()) == 0)
            continue;
        json_decref(names);
        names = NULL;
    }
    return names;
}

/* Keys for all layers beside the objects of a nested dict, and objects under names that no layer has.  transformers 5.24
 * and vLLM drop them; 5.16 took such a dict as flat, and versions between stopped. */
static void warn_dropped(const gyre_scope *dict, const json_t *listed) {
    const char *key;
    json_t *value;
    int dropped = 0;
    json_object_foreach((json_t *)dict->object, key, value) {
        const int is_type = gyre_rope_is_layer_type(key) || json_object_get(listed, key);
        if (is_type && (json_is_object(value) || json_is_null(value))) continue;
        if (++dropped <= MAX_DROPPED_KEYS)
            gyre_scope_warn(dict, key,
                            "%.60s: not read beside the objects for each type of layers; transformers 5.16 took "
                            "the whole as one rotation",
                            key);
    }
}

static int class_dict_named(const gyre_family *family);

/* out = 1 if the file, or the class, names types of layers. */
static int has_layer_types(const gyre_family *family, const gyre_scope *root) {
    const unsigned by_type = GYRE_DUAL_BASE | GYRE_SCALING_FULL_ONLY | GYRE_SLIDING_ROPE | GYRE_LAYER_THETA;
    return gyre_scope_value(root, "layer_types") || family->traits & by_type || gyre_family_is_assumed(family) ||
           class_dict_named(family);
}

/* transformers takes a dict as one for each type of layers if one of its keys is such a type, and the class has types. */
static int is_nested(const gyre_family *family, const gyre_scope *root, const gyre_scope *dict) {
    const char *key, *object_key = NULL;
    json_t *value, *listed = listed_types(root);
    size_t types = 0;
    if (!listed) {
        gyre_build_fail(root->source->build, GYRE_ENOMEM, NULL, "layer_types: no memory");
        return 0;
    }
    json_object_foreach((json_t *)dict->object, key, value) {
        const int is_type = gyre_rope_is_layer_type(key) || json_object_get(listed, key);
        types += is_type && (json_is_object(value) || json_is_null(value));
        if (json_is_object(value)) object_key = key;
    }
    const int nested = types > 0 && (types == json_object_size(dict->object) || has_layer_types(family, root));
    if (nested) warn_dropped(dict, listed);
    json_decref(listed);
    if (types == 0 && object_key)
        gyre_scope_fail(dict, GYRE_EFORMAT, object_key, "an object, but \"%.60s\" is not a type of layers", object_key);
    else if (!nested && object_key)
        gyre_scope_warn(dict, object_key, "%.60s: not read; the class of a %s has no types of layers", object_key,
                        family->model_type);
    return nested;
}

/* A rope_scaling with contents replaces rope_parameters entirely.  llama.cpp's converter prefers rope_parameters. */
static const char *dict_key(const gyre_scope *root, gyre_profile profile) {
    const json_t *old = gyre_scope_value(root, "rope_scaling"), *new = gyre_scope_value(root, "rope_parameters");
    const int has_old = old && (!json_is_object(old) || json_object_size(old) > 0);
    const int has_new = new && (!json_is_object(new) || json_object_size(new) > 0);
    if (gyre_profile_is_hf_4(profile)) {
        if (has_new)
            gyre_scope_warn(root, "rope_parameters",
                            "rope_parameters: transformers 4 does not read it; without rope_theta and rope_scaling beside "
                            "it the model gets its class's base and no scaling");
        return has_old ? "rope_scaling" : NULL;
    }
    if (has_old && has_new) {
        const int cpp = profile == GYRE_PROFILE_LLAMA_CPP;
        gyre_scope_warn(root, cpp ? "rope_scaling" : "rope_parameters", "%s: %s replaces the whole object by %s",
                        cpp ? "rope_scaling" : "rope_parameters", gyre_profile_program(profile),
                        cpp ? "rope_parameters" : "rope_scaling");
        return cpp ? "rope_parameters" : "rope_scaling";
    }
    return has_old ? "rope_scaling" : has_new ? "rope_parameters" : NULL;
}

/* Dicts that classes use if the file has neither. */
typedef struct class_dict {
    const char *family;
    int since; /* minor version of transformers 4; 0 = transformers 5 */
    const char *json;
} class_dict;
static const class_dict class_dicts[] = {
    {"gpt_oss", 56,
     "{\"rope_type\": \"yarn\", \"factor\": 32.0, \"beta_fast\": 32.0, \"beta_slow\": 1.0, \"truncate\": false, "
     "\"original_max_position_embeddings\": 4096}"},
    {"gpt_oss", 55,
     "{\"rope_type\": \"yarn\", \"factor\": 32.0, \"beta_fast\": 32.0, \"beta_slow\": 1.0, \"truncate\": false}"},
    {"cwm", 56,
     "{\"rope_type\": \"llama3\", \"rope_theta\": 1000000.0, \"factor\": 16.0, \"low_freq_factor\": 1.0, "
     "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}"},
    {"apertus", 56,
     "{\"rope_type\": \"llama3\", \"rope_theta\": 12000000.0, \"factor\": 8.0, \"low_freq_factor\": 1.0, "
     "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}"},
    {"ministral3", 0,
     "{\"rope_type\": \"yarn\", \"rope_theta\": 1000000.0, \"factor\": 16.0, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "
     "\"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"original_max_position_embeddings\": 16384, "
     "\"llama_4_scaling_beta\": 0.1}"},
    {"mistral4", 0,
     "{\"rope_type\": \"yarn\", \"rope_theta\": 10000.0, \"factor\": 128.0, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "
     "\"mscale\": 1.0, \"mscale_all_dim\": 1.0, \"original_max_position_embeddings\": 8192, "
     "\"llama_4_scaling_beta\": 0.1}"},
    {"mistral_large4", 0,
     "{\"rope_type\": \"yarn\", \"rope_theta\": 10000.0, \"factor\": 2048.0, \"beta_fast\": 32.0, \"beta_slow\": 1.0, "
     "\"attention_factor\": 1.0, \"original_max_position_embeddings\": 512}"},
    {"openai_privacy_filter", 0,
     "{\"rope_type\": \"yarn\", \"factor\": 32.0, \"beta_fast\": 32.0, \"beta_slow\": 1.0, \"truncate\": false, "
     "\"original_max_position_embeddings\": 4096}"},
    {"apertus1p5", 0,
     "{\"rope_type\": \"llama3\", \"rope_theta\": 12000000.0, \"factor\": 8.0, \"low_freq_factor\": 1.0, "
     "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}"},
    {"dory", 0,
     "{\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}, \"full_attention\": {\"rope_type\": "
     "\"default\", \"rope_theta\": 10000000.0}}"},
    {"lfm3", 0,
     "{\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}, \"full_attention\": {\"rope_type\": "
     "\"proportional\", \"partial_rotary_factor\": 0.5, \"rope_theta\": 1000000.0}}"},
    {"mellum", 0,
     "{\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}, \"full_attention\": {\"rope_type\": "
     "\"default\", \"rope_theta\": 500000.0}}"},
    {"neomme", 0,
     "{\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}, \"full_attention\": {\"rope_type\": "
     "\"default\", \"partial_rotary_factor\": 0.25, \"rope_theta\": 1000000.0}}"},
    {"ultrabert", 0,
     "{\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}, \"full_attention\": {\"rope_type\": "
     "\"default\", \"rope_theta\": 2560000.0}}"},
    {"gemma4_unified", 0,
     "{\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}, \"full_attention\": {\"rope_type\": "
     "\"proportional\", \"partial_rotary_factor\": 0.25, \"rope_theta\": 1000000.0}}"},
    {"diffusion_gemma", 0,
     "{\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}, \"full_attention\": {\"rope_type\": "
     "\"proportional\", \"partial_rotary_factor\": 0.25, \"rope_theta\": 1000000.0}}"},
    {"gemma4", 0,
     "{\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}, \"full_attention\": {\"rope_type\": "
     "\"proportional\", \"partial_rotary_factor\": 0.25, \"rope_theta\": 1000000.0}}"}};

/* transformers 4 takes a null literally.  llama.cpp's converter does not know classes. */
static const class_dict *class_dict_of(const gyre_family *family, const gyre_scope *root, gyre_profile profile) {
    const int is_4 = gyre_profile_is_hf_4(profile);
    if (profile == GYRE_PROFILE_LLAMA_CPP || (is_4 && gyre_scope_has(root, "rope_scaling"))) return NULL;
    /* A class that reads a list of bases makes its dict of that. */
    if (json_is_array(gyre_scope_value(root, "rope_theta"))) return NULL;
    for (size_t i = 0; i < sizeof class_dicts / sizeof *class_dicts; i++) {
        const size_t length = strlen(class_dicts[i].family);
        const char *rest = family->model_type + length;
        if (strncmp(class_dicts[i].family, family->model_type, length) != 0) continue;
        if (*rest && strcmp(rest, "_text") != 0) continue;
        const int since = class_dicts[i].since;
        if (!is_4 || (since != 0 && !gyre_profile_before(profile, since))) return &class_dicts[i];
    }
    return NULL;
}

static int class_dict_named(const gyre_family *family) {
    for (size_t i = 0; i < sizeof class_dicts / sizeof *class_dicts; i++)
        if (strcmp(class_dicts[i].family, family->model_type) == 0)
            return strstr(class_dicts[i].json, "full_attention") != NULL;
    return 0;
}

static void read_class_dict(const gyre_family *family, const gyre_scope *root, gyre_rope_dict *out) {
    gyre_build *build = root->source->build;
    const class_dict *own = class_dict_of(family, root, gyre_build_profile(build));
    if (!own || gyre_build_status(build)) return;
    out->class_default = json_loads(own->json, 0, NULL);
    if (!out->class_default) {
        gyre_build_fail(build, GYRE_ENOMEM, NULL, "rope_parameters: no memory");
        return;
    }
    out->key = "rope_parameters";
    out->scope = (gyre_scope){root->source, out->class_default, "rope_parameters."};
    out->nested = json_object_get(out->class_default, "full_attention") != NULL;
}

void gyre_rope_free_dict(gyre_rope_dict *dict) {
    json_decref(dict->class_default);
    dict->class_default = NULL;
}

/* DeepSeek-V4 has two names for further layer types. */
const char *gyre_rope_entry_of(const gyre_rope_dict *dict, const char *type) {
    if (!gyre_scope_has(&dict->scope, "main") && !gyre_scope_has(&dict->scope, "compress")) return type;
    return strcmp(type, "sliding_attention") == 0 || strcmp(type, "main") == 0 ? "main" : "compress";
}

gyre_rope_dict gyre_rope_find_dict(const gyre_family *family, const gyre_scope *root) {
    const gyre_profile profile = gyre_build_profile(root->source->build);
    const int is_mlx = profile == GYRE_PROFILE_MLX_LM;
    gyre_rope_dict out = {
        {root->source, NULL, ""}, is_mlx ? gyre_mlx_dict_key(family, root) : dict_key(root, profile), 0, NULL};
    if (!out.key && !is_mlx) read_class_dict(family, root, &out);
    if (!out.key || out.class_default) return out;
    out.scope = gyre_scope_child(root, out.key);
    /* Each is looked for in the text again and again. */
    if (json_object_size(out.scope.object) > MAX_ROPE_KEYS)
        gyre_scope_fail(root, GYRE_EFORMAT, out.key, "more than %d keys", MAX_ROPE_KEYS);
    out.nested = is_nested(family, root, &out.scope);
    if (out.nested && gyre_profile_is_hf_4(profile))
        gyre_scope_fail(root, GYRE_EUNSUPPORTED, out.key,
                        "an object for each type of layers, which transformers 5 reads first");
    return out;
}

/* -- the type -- */
/* Synonyms, which some files use side by side. */
static int is_same_type(const char *a, const char *b) {
    static const char *const pairs[][2] = {{"su", "longrope"}, {"yarn", "longrope"}, {"mrope", "default"}};
    if (strcmp(a, b) == 0) return 1;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if ((strcmp(a, pairs[i][0]) == 0 && strcmp(b, pairs[i][1]) == 0) ||
            (strcmp(b, pairs[i][0]) == 0 && strcmp(a, pairs[i][1]) == 0))
            return i != 1; /* yarn and longrope are different scalings, except in Phi-3 */
    return 0;
}

static const char *resolve_alias(const gyre_rope_source *source, const char *type) {
    const unsigned axes = GYRE_MROPE_CHUNKED | GYRE_MROPE_INTERLEAVED | GYRE_MROPE_ERNIE;
    const gyre_profile profile = gyre_build_profile(source->root.source->build);
    const int is_phi = (source->family->traits & GYRE_YARN_IS_LONGROPE) != 0;
    if (is_phi && (strcmp(type, "su") == 0 || strcmp(type, "yarn") == 0)) return "longrope";
    const int is_open = profile == GYRE_PROFILE_REFERENCE || gyre_family_is_assumed(source->family);
    if (strcmp(type, "mrope") == 0 && ((source->family->traits & axes) || is_open)) return "default";
    /* Engines have it or drop it. */
    if (strcmp(type, "deepseek_yarn") == 0 && is_open && !gyre_profile_is_engine(profile)) return "yarn";
    if (strcmp(type, "xdrope") == 0 && (source->family->traits & GYRE_XDROPE)) return "dynamic";
    if (strcmp(type, "su") == 0 && profile == GYRE_PROFILE_REFERENCE) return "longrope";
    return type;
}

int gyre_rope_becomes_nested(const gyre_family *family) {
    static const char *const families[] = {"olmo3",        "gemma3",     "gemma3_text",        "gemma3n",
                                           "gemma3n_text", "modernbert", "modernbert-decoder", NULL};
    for (int i = 0; families[i]; i++)
        if (strcmp(families[i], family->model_type) == 0) return 1;
    return 0;
}

void gyre_rope_find_type(gyre_rope_source *source) {
    const gyre_scope *dict = &source->dict;
    const gyre_profile profile = gyre_build_profile(dict->source->build);
    const int has_new = gyre_scope_value(dict, "rope_type") != NULL, has_old = gyre_scope_value(dict, "type") != NULL;
    source->type_key = has_new || !has_old ? "rope_type" : "type";
    source->type = "default";
    if (!has_new && !has_old) {
        if (gyre_profile_is_hf_4(profile) && json_object_size(dict->object) > 0)
            gyre_scope_fail(dict, GYRE_EFORMAT, "rope_type", "missing");
        return;
    }
    const char *type = gyre_scope_string(dict, source->type_key, "default");
    if (has_new && has_old) {
        const char *other = gyre_scope_string(dict, "type", type);
        const int is_phi = (source->family->traits & GYRE_YARN_IS_LONGROPE) != 0;
        if (!is_same_type(type, other) &&
            !(is_phi && strcmp(resolve_alias(source, type), resolve_alias(source, other)) == 0))
            gyre_scope_fail(dict, GYRE_EFORMAT, "type", "\"%.40s\", but rope_type says \"%.40s\"", other, type);
    }
    source->type = resolve_alias(source, type);
    if (strcmp(type, "deepseek_yarn") == 0 && strcmp(source->type, "yarn") == 0)
        gyre_scope_warn(dict, source->type_key,
                        "%s: \"deepseek_yarn\" is vLLM's name of yarn, which transformers does not have", source->type_key);
    if (profile != GYRE_PROFILE_HF_5) return;
    if (!has_new && !source->nested && gyre_rope_becomes_nested(source->family)) {
        gyre_scope_warn(dict, "type", "type: transformers 5 reads only rope_type for this class, and scales nothing");
        source->type = "default";
    }
    if (strcmp(type, "su") == 0 && strcmp(source->type, "longrope") == 0 &&
        !gyre_scope_value(dict, "original_max_position_embeddings"))
        gyre_scope_warn(
            dict, source->type_key,
            "%s: transformers 5 fails on \"su\" without original_max_position_embeddings beside it; read as longrope",
            source->type_key);
}

/* -- the base -- */
/* Families whose sliding layers have their own base. */
typedef struct dual_base {
    const char *family, *full_key, *sliding_key;
    double full, sliding;
} dual_base;
static const dual_base dual_bases[] = {{"gemma3", "rope_theta", "rope_local_base_freq", 1e6, 1e4},
                                       {"gemma4", "rope_theta", "rope_local_base_freq", 1e6, 1e4},
                                       {"modernbert", "global_rope_theta", "local_rope_theta", 160000.0, 1e4},
                                       {"mimo_v2_flash", "rope_theta", "swa_rope_theta", 5e6, 1e4},
                                       {"dots3_note", "rope_theta", "swa_rope_theta", 8e7, 5e4},
                                       {"laguna", "rope_theta", "swa_rope_theta", 5e5, 1e4}};

static const dual_base *dual_base_of(const gyre_family *family) {
    if (!(family->traits & GYRE_DUAL_BASE)) return NULL;
    for (size_t i = 0; i < sizeof dual_bases / sizeof *dual_bases; i++)
        if (strncmp(dual_bases[i].family, family->model_type, strlen(dual_bases[i].family)) == 0) return &dual_bases[i];
    return &dual_bases[0];
}

gyre_rope_provenance gyre_rope_provenance_of(const gyre_rope_source *source, const gyre_scope *scope, const char *key) {
    if (source->from_class && scope->object == source->dict.object)
        return (gyre_rope_provenance){GYRE_ORIGIN_FAMILY, {NULL, 0, 0}};
    return (gyre_rope_provenance){GYRE_ORIGIN_FILE, gyre_scope_place(scope, key)};
}

/* Warns if two names of one value disagree.  The first counts. */
static void warn_conflicting_key(const gyre_scope *used, const char *key, const gyre_scope *scope, const char *other) {
    if (!gyre_scope_value(scope, other) || (used->object == scope->object && strcmp(key, other) == 0)) return;
    if (gyre_scope_number(used, key, 0.0) != gyre_scope_number(scope, other, 0.0))
        gyre_scope_warn(scope, other, "%s: %s%s has precedence over it, and has another number", other, used->prefix, key);
}

/* GPT-NeoX's classes know the older names of two keys alone. */
static int has_older_names(const gyre_rope_source *source) {
    return (source->family->traits & GYRE_OLDER_NAMES) != 0;
}

static void warn_not_read(const gyre_rope_source *source, const char *read, const char *key, const char *older) {
    const gyre_scope *root = &source->root;
    if (!gyre_scope_value(root, key)) return;
    if (read && gyre_scope_number(root, key, 0.0) == gyre_scope_number(root, read, 0.0)) return;
    gyre_scope_warn(root, key, "%s: the class of a %s reads only %s", key, source->family->model_type, older);
}

static double hf_5_base(const gyre_rope_source *source) {
    const int is_5 = gyre_build_profile(source->root.source->build) == GYRE_PROFILE_HF_5;
    return is_5 ? gyre_family_hf_5_base(source->family) : 0.0;
}

/* transformers 5 gives the rope_theta of an Olmo 3 to its full layers alone, and the class's base to the others. */
static int is_base_of_full_layers(const gyre_rope_source *source, int sliding, const char *key) {
    if (!key || !sliding || !(source->family->traits & GYRE_SCALING_FULL_ONLY)) return 0;
    if (gyre_build_profile(source->root.source->build) != GYRE_PROFILE_HF_5) return 0;
    if (gyre_scope_number(&source->root, key, 0.0) != hf_5_base(source))
        gyre_scope_warn(&source->root, key,
                        "%s: transformers 5 uses it only for the full_attention layers of this class; the others have %g",
                        key, hf_5_base(source));
    return 1;
}

/* ModernBERT's decoder in transformers 4 has global_rope_theta in all layers. */
static int has_one_base(const gyre_rope_source *source) {
    return strcmp(source->family->model_type, "modernbert-decoder") == 0 &&
           gyre_profile_is_hf_4(gyre_build_profile(source->root.source->build));
}

/* out = the base beside the dict, or the class default. */
static double read_file_base(const gyre_rope_source *source, int sliding, gyre_rope_provenance *found) {
    static const char *const names[] = {"rope_theta", "rotary_emb_base", NULL};
    const int is_neox = has_older_names(source);
    const dual_base *two = dual_base_of(source->family);
    if (has_one_base(source)) sliding = 0;
    const char *key = two ? (sliding ? two->sliding_key : two->full_key) : gyre_scope_first(&source->root, names + is_neox);
    if (two && !gyre_scope_value(&source->root, key)) key = NULL;
    if (is_base_of_full_layers(source, sliding, key)) key = NULL;
    if (is_neox) warn_not_read(source, key, names[0], names[1]);
    if (key) {
        if (!two && !is_neox) warn_conflicting_key(&source->root, key, &source->root, names[1]);
        *found = gyre_rope_provenance_of(source, &source->root, key);
        return gyre_scope_number(&source->root, key, 0.0);
    }
    /* dbrx has it in attn_config. */
    if (!two && json_is_object(gyre_scope_value(&source->root, "attn_config"))) {
        const gyre_scope attention = gyre_scope_child(&source->root, "attn_config");
        *found = gyre_rope_provenance_of(source, &attention, names[0]);
        if (gyre_scope_value(&attention, names[0])) return gyre_scope_number(&attention, names[0], 0.0);
    }
    const double of_5 = hf_5_base(source), of_family = of_5 > 0.0 ? of_5 : source->family->base;
    const double own = two ? (sliding ? two->sliding : two->full) : of_family;
    *found = (gyre_rope_provenance){own > 0.0 ? GYRE_ORIGIN_FAMILY : GYRE_ORIGIN_READER, {NULL, 0, 0}};
    return own > 0.0 ? own : 10000.0;
}

int gyre_rope_is_plain(const gyre_rope_source *source) {
    const gyre_profile profile = gyre_build_profile(source->root.source->build);
    const unsigned traits = source->family->traits;
    return (gyre_profile_is_hf(profile) && (traits & GYRE_HF_PLAIN_ROPE)) ||
           (gyre_profile_is_vllm(profile) && (traits & GYRE_VLLM_PLAIN_ROPE));
}

static double fixed_base(const gyre_rope_source *source, gyre_rope_provenance *found) {
    static const char key[] = "rope_theta";
    const gyre_scope *scopes[] = {&source->root, &source->dict};
    for (int i = 0; i < 2; i++)
        if (gyre_scope_value(scopes[i], key) && gyre_scope_number(scopes[i], key, 0.0) != 10000.0)
            gyre_scope_warn(scopes[i], key, "rope_theta: the class of a %s does not read it; it has 10000",
                            source->family->model_type);
    *found = (gyre_rope_provenance){GYRE_ORIGIN_FAMILY, {NULL, 0, 0}};
    return 10000.0;
}

/* Muse's classes take only from the list which layers do not rotate. */
static int has_shared_base(const gyre_rope_source *source) {
    static const char key[] = "rope_theta";
    const int is_muse = strncmp(source->family->model_type, "muse_", 5) == 0;
    if (!is_muse || !gyre_profile_is_hf(gyre_build_profile(source->root.source->build))) return 0;
    const gyre_scope *scope = gyre_scope_value(&source->dict, key) ? &source->dict : &source->root;
    if (!json_is_number(gyre_scope_value(scope, key))) return 0;
    if (gyre_scope_number(scope, key, 0.0) != source->own.base)
        gyre_scope_warn(&source->root, source->own.base_key,
                        "%s: %g; transformers rotates by rope_theta, and reads of the list only where it is 0",
                        source->own.base_key, source->own.base);
    return 1;
}

double gyre_rope_read_base(const gyre_rope_source *source, int sliding, gyre_rope_provenance *found) {
    const gyre_profile profile = gyre_build_profile(source->root.source->build);
    const char *key = "rope_theta";
    double base;
    if (profile == GYRE_PROFILE_MLX_LM) {
        base = gyre_mlx_read_base(source, sliding, found);
    } else if (gyre_rope_is_plain(source)) {
        base = fixed_base(source, found);
    } else if (source->own.base_key && !has_shared_base(source)) {
        *found = gyre_rope_provenance_of(source, &source->root, source->own.base_key);
        base = source->own.base;
    } else if (gyre_scope_value(&source->dict, key) && !gyre_profile_is_hf_4(profile)) {
        *found = gyre_rope_provenance_of(source, &source->dict, key);
        base = gyre_scope_number(&source->dict, key, 0.0);
        if (!source->nested && gyre_scope_value(&source->root, key) && gyre_scope_number(&source->root, key, 0.0) != base)
            gyre_scope_warn(&source->root, key, "rope_theta: %s takes the other value, in %.40s",
                            gyre_profile_program(profile),
                            source->from_class ? "the class's own rope_parameters" : found->place.key);
    } else {
        base = read_file_base(source, sliding, found);
    }
    /* ChatGLM states its base as a ratio. */
    if (strcmp(source->family->model_type, "chatglm") == 0 && gyre_scope_value(&source->root, "rope_ratio")) {
        *found = gyre_rope_provenance_of(source, &source->root, "rope_ratio");
        base *= gyre_scope_number(&source->root, "rope_ratio", 1.0);
    }
    if (!(base > 1.0))
        gyre_build_fail(source->root.source->build, GYRE_EFORMAT, &found->place, "%s: the base, %g, is not above 1",
                        found->place.key ? found->place.key : key, base);
    return base;
}

/* -- the rotating fraction of the head -- */
static double checked_partial_factor(const gyre_scope *s, const char *key) {
    const double fraction = gyre_scope_number(s, key, 1.0);
    if (fraction > 0.0 && fraction <= 1.0) return fraction;
    gyre_scope_fail(s, GYRE_EFORMAT, key, "%g is not a share above 0 and up to 1", fraction);
    return 1.0;
}

double gyre_rope_read_partial_factor(const gyre_rope_source *source, gyre_rope_provenance *found) {
    static const char *const names[] = {"partial_rotary_factor", "rotary_pct", "rope_pct", "rotary_emb_fraction", NULL};
    const gyre_profile profile = gyre_build_profile(source->root.source->build);
    const int is_neox = has_older_names(source);
    if (source->own.partial_key) {
        *found = gyre_rope_provenance_of(source, &source->root, source->own.partial_key);
        if (source->own.partial > 0.0 && source->own.partial <= 1.0) return source->own.partial;
        gyre_scope_fail(&source->root, GYRE_EFORMAT, source->own.partial_key, "%g is not a share above 0 and up to 1",
                        source->own.partial);
        return 1.0;
    }
    const char *root_key = gyre_scope_first(&source->root, names + is_neox);
    if (is_neox) warn_not_read(source, root_key, names[0], names[1]);
    if (root_key && !(source->nested && gyre_scope_value(&source->dict, names[0]))) {
        *found = gyre_rope_provenance_of(source, &source->root, root_key);
        for (int i = is_neox; names[i]; i++)
            warn_conflicting_key(&source->root, root_key, &source->root, names[i]);
        warn_conflicting_key(&source->root, root_key, &source->dict, names[0]);
        return checked_partial_factor(&source->root, root_key);
    }
    if (gyre_scope_value(&source->dict, names[0])) {
        *found = gyre_rope_provenance_of(source, &source->dict, names[0]);
        if (!gyre_profile_is_hf_4(profile)) return checked_partial_factor(&source->dict, names[0]);
        gyre_scope_warn(&source->dict, names[0],
                        "partial_rotary_factor: transformers 4 reads only the one beside rope_scaling");
    }
    const double of_family = gyre_profile_is_hf(profile) && gyre_family_hf_rotates_all(source->family)
                                 ? 1.0
                                 : source->family->partial_rotary_factor;
    *found = (gyre_rope_provenance){of_family > 0.0 ? GYRE_ORIGIN_FAMILY : GYRE_ORIGIN_READER, {NULL, 0, 0}};
    return of_family > 0.0 ? of_family : 1.0;
}
