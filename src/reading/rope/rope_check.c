/* rope_check.c: unread keys and unknown types. */
#include "reading/rope/read_rope.h"

#include <string.h>

enum { MAX_UNKNOWN_KEYS = 20 }; /* each with its own warning */

static int is_in(const char *const *names, const char *name) {
    for (; *names; names++)
        if (strcmp(*names, name) == 0) return 1;
    return 0;
}

/* out = 1 for keys that any type may have beside its own. */
static int is_common(const gyre_rope_source *source, const char *key) {
    static const char *const always[] = {"rope_type", "type", NULL};
    static const char *const since_5[] = {"rope_theta", "partial_rotary_factor", NULL};
    static const char *const axes[] = {"mrope_section", "mrope_interleaved", NULL};
    const unsigned with_axes = GYRE_MROPE_CHUNKED | GYRE_MROPE_INTERLEAVED | GYRE_MROPE_ERNIE | GYRE_XDROPE;
    const gyre_profile profile = gyre_build_profile(source->root.source->build);
    if (is_in(always, key)) return 1;
    if (is_in(since_5, key)) return !gyre_profile_is_hf_4(profile);
    if (is_in(axes, key))
        return (source->family->traits & with_axes) || profile == GYRE_PROFILE_REFERENCE ||
               gyre_family_is_assumed(source->family);
    if (strcmp(key, "llama_4_scaling_beta") == 0) return (source->family->traits & GYRE_LLAMA4_SCALING_BETA) != 0;
    /* These keys only say how layers differ: gpt-oss, Gemma 3, ... */
    return strcmp(key, "xdrope_section") == 0 && (source->family->traits & GYRE_XDROPE);
}

/* `attention_factor` and other keys that change numbers were reported before. */
void gyre_rope_warn_unread_keys(const gyre_rope_source *source, const char *const *keys) {
    const char *program = gyre_profile_program(gyre_build_profile(source->root.source->build));
    int unknown = 0;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)source->dict.object, key, value) {
        if (is_in(keys, key) || is_common(source, key) || json_is_object(value)) continue;
        if (++unknown <= MAX_UNKNOWN_KEYS)
            gyre_scope_doubt(&source->dict, GYRE_WARNING_UNREAD_KEY, key, "%.60s: %s does not read it for type %s", key,
                             program, source->type);
    }
    if (unknown > MAX_UNKNOWN_KEYS)
        gyre_scope_warn(&source->dict, source->type_key, "%d more keys that %s does not read", unknown - MAX_UNKNOWN_KEYS,
                        program);
}

void gyre_rope_fail_unknown_type(const gyre_rope_source *source, const char *types) {
    const gyre_profile profile = gyre_build_profile(source->root.source->build);
    const char *program = gyre_profile_program(profile);
    if (strcmp(source->type, "deepseek_yarn") == 0)
        gyre_scope_fail(
            &source->dict, GYRE_EUNSUPPORTED, source->type_key,
            "\"deepseek_yarn\" is vLLM's name of yarn; %s has no function of that name and stops; write \"yarn\"", program);
    gyre_scope_fail(&source->dict, GYRE_EUNSUPPORTED, source->type_key, "\"%.60s\" is not a type that %s knows (%s)",
                    source->type, program, types);
}
