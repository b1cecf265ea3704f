/* gguf_unread_keys.c: keys of the architecture whose names are about positions, and that no reader has looked up.  The rule
 * is that of a config.json (reading/unread_keys.c). */
#include "reading/family.h"
#include "reading/gguf/gguf_source.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DOUBTS = 20, MAX_SUFFIX_BYTES = 120 };
static const char of_sliding[] = "_swa"; /* ends the keys of layers with a window */

#define GGUF_HARMLESS(suffix) suffix,
static const char *const harmless_keys[] = {
#include "reading/gguf/gguf_harmless_keys.def"
};
#undef GGUF_HARMLESS

/* *out = what follows the architecture's name, as printable text.  out = 0 for another key. */
static int suffix_of(const gyre_gguf_source *s, const gyre_gguf_kv *pair, char out[MAX_SUFFIX_BYTES]) {
    const size_t prefix = strlen(s->name) + 1;
    if (pair->key_bytes <= prefix || memcmp(pair->key, s->name, prefix - 1) != 0 || pair->key[prefix - 1] != '.') return 0;
    size_t bytes = pair->key_bytes - prefix;
    if (bytes > MAX_SUFFIX_BYTES - 1) bytes = MAX_SUFFIX_BYTES - 1;
    for (size_t i = 0; i < bytes; i++) {
        const char c = pair->key[prefix + i];
        out[i] = '?';
        if (c > ' ' && c <= '~') out[i] = c;
    }
    out[bytes] = '\0';
    return 1;
}

/* Words that a config.json uses for other things too. */
static int is_position_suffix(const char *suffix) {
    return gyre_is_position_name(suffix) || strstr(suffix, "context") || strstr(suffix, "freq_base");
}

/* out = 1 for a value that asks for nothing: false, 0, an empty text, an array of such numbers. */
static int says_nothing(const gyre_gguf_value *value) {
    double x;
    if (value->type == GYRE_GGUF_STRING) return value->count == 0;
    for (uint64_t i = 0; i < value->count; i++)
        if (!gyre_gguf_number(value, i, &x) || x != 0) return 0;
    return 1;
}

static int was_read(const gyre_gguf_source *s, const gyre_gguf_kv *pair) {
    return s->was_read[pair - s->file->kvs];
}

/* out = 1 if the same key of the other layers was read and there is no doubt about this one: of layers without a window
 * where all have one, or with the same number. */
static int is_of_other_layers(const gyre_gguf_source *s, const char *suffix, const gyre_gguf_value *value) {
    char key[sizeof s->name + MAX_SUFFIX_BYTES + sizeof of_sliding];
    double here, there;
    const size_t length = strlen(suffix), end = sizeof of_sliding - 1;
    if (length > end && strcmp(suffix + length - end, of_sliding) == 0) {
        snprintf(key, sizeof key, "%s.%.*s", s->name, (int)(length - end), suffix);
        const gyre_gguf_kv *other = gyre_gguf_find_key(s->file, key);
        return other && value->type != GYRE_GGUF_ARRAY && other->value.type != GYRE_GGUF_ARRAY &&
               gyre_gguf_number(value, 0, &here) && gyre_gguf_number(&other->value, 0, &there) && here == there;
    }
    snprintf(key, sizeof key, "%s.%s%s", s->name, suffix, of_sliding);
    const gyre_gguf_kv *other = gyre_gguf_find_key(s->file, key);
    return other && was_read(s, other);
}

static int is_harmless(const gyre_gguf_source *s, const char *suffix, const gyre_gguf_value *value) {
    double x;
    for (size_t i = 0; i < sizeof harmless_keys / sizeof *harmless_keys; i++)
        if (strcmp(harmless_keys[i], suffix) == 0) return 1;
    if (s->rotates_nothing && strncmp(suffix, "rope.", 5) == 0) return 1;
    if (says_nothing(value) || is_of_other_layers(s, suffix, value)) return 1;
    return value->type != GYRE_GGUF_ARRAY && gyre_gguf_number(value, 0, &x) &&
           gyre_is_said_elsewhere(gyre_build_so_far(s->build), suffix, x);
}

static void doubt_key(const gyre_gguf_source *s, const gyre_gguf_kv *pair, const char *suffix) {
    const gyre_place place = {gyre_build_format(s->build, "%s.%s", s->name, suffix), 0, pair->offset};
    gyre_build_doubt(s->build, GYRE_WARNING_UNREAD_KEY, &place,
                     "%s.%.60s: its name is that of a position's key, and nothing reads it", s->name, suffix);
}

void gyre_gguf_warn_unread_keys(const gyre_gguf_source *s) {
    char suffix[MAX_SUFFIX_BYTES];
    const gyre_gguf_kv *first_more = NULL;
    int64_t doubts = 0;
    for (int64_t i = 0; i < s->file->kv_count && !gyre_build_status(s->build); i++) {
        const gyre_gguf_kv *pair = &s->file->kvs[i];
        if (was_read(s, pair) || !suffix_of(s, pair, suffix) || !is_position_suffix(suffix)) continue;
        if (is_harmless(s, suffix, &pair->value)) continue;
        if (++doubts <= MAX_DOUBTS)
            doubt_key(s, pair, suffix);
        else if (!first_more)
            first_more = pair;
    }
    if (!first_more || !suffix_of(s, first_more, suffix)) return;
    const gyre_place place = {gyre_build_format(s->build, "%s.%s", s->name, suffix), 0, first_more->offset};
    gyre_build_doubt(s->build, GYRE_WARNING_UNREAD_KEY, &place, "%lld more keys with names of positions that nothing reads",
                     (long long)(doubts - MAX_DOUBTS));
}
