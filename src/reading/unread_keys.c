/* unread_keys.c: keys whose names are about positions, and that no reader has looked up.
 *
 * A reader that does not know a key says nothing of it, and its positions may be wrong for that.  So whatever is left over
 * becomes a doubt with its line, unless it is known to be about something else. */
#include "reading/family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DOUBTS = 20, MAX_DEPTH = 6, MAX_WORD = 64 };

/* -- names -- */
/* How a word of the table is held against the words of a key, which are separated by anything but letters and digits. */
typedef enum match { WHOLE, BEGINS, ENDS, INSIDE } match;

#define WORD(word, how) {word, how},
static const struct position_word {
    const char *word;
    match how;
} position_words[] = {
#include "reading/position_words.def"
};
#undef WORD
#define HARMLESS(key, value)        {key, value, NULL},
#define HARMLESS_BESIDE(key, other) {key, NULL, other},
static const struct harmless_key {
    const char *key, *value; /* value NULL = any */
    const char *beside;      /* only in an object where this key was read; NULL = anywhere */
} harmless_keys[] = {
#include "reading/harmless_keys.def"
};
#undef HARMLESS
#undef HARMLESS_BESIDE

static int is_word_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static int has_word(const char *word, size_t length) {
    for (size_t i = 0; i < sizeof position_words / sizeof *position_words; i++) {
        const struct position_word *p = &position_words[i];
        const size_t own = strlen(p->word);
        if (p->how == INSIDE || own > length || (p->how == WHOLE && own != length)) continue;
        if (memcmp(p->how == ENDS ? word + length - own : word, p->word, own) == 0) return 1;
    }
    return 0;
}

int gyre_is_position_name(const char *key) {
    char word[MAX_WORD];
    for (size_t i = 0; i < sizeof position_words / sizeof *position_words; i++)
        if (position_words[i].how == INSIDE && strstr(key, position_words[i].word)) return 1;
    while (*key) {
        size_t length = 0;
        for (; is_word_byte(*key); key++)
            if (length < sizeof word) word[length++] = (char)(*key >= 'A' && *key <= 'Z' ? *key + 'a' - 'A' : *key);
        if (has_word(word, length)) return 1;
        if (*key) key++;
    }
    return 0;
}

/* -- values -- */
/* out = 1 for a value that asks for nothing: null, false, 0, an empty text, and lists and objects of such. */
static int says_nothing(const json_t *value, int depth) {
    size_t i;
    const json_t *inside;
    const char *key;
    json_t *member;
    if (json_is_null(value) || json_is_false(value)) return 1;
    if (json_is_number(value)) return json_number_value(value) == 0.0;
    if (json_is_string(value)) return json_string_length(value) == 0;
    if (json_is_true(value) || depth == 0) return 0;
    json_array_foreach((json_t *)value, i, inside) if (!says_nothing(inside, depth - 1)) return 0;
    json_object_foreach((json_t *)value, key, member) if (!says_nothing(member, depth - 1)) return 0;
    return 1;
}

static int was_read_in(const gyre_scope *s, const char *key) {
    void *at = json_object_iter_at((json_t *)s->object, key);
    return at && !json_is_null(json_object_iter_value(at)) && gyre_key_marks_has(s->source->marks, json_object_iter_key(at));
}

static int is_harmless(const gyre_scope *s, const char *key, const json_t *value) {
    for (size_t i = 0; i < sizeof harmless_keys / sizeof *harmless_keys; i++) {
        const struct harmless_key *h = &harmless_keys[i];
        if (strcmp(h->key, key) != 0 || (h->beside && !was_read_in(s, h->beside))) continue;
        if (!h->value || (json_is_string(value) && strcmp(json_string_value(value), h->value) == 0)) return 1;
    }
    return 0;
}

static int is_field(const gyre_layer_reading *group, const char *name, double number) {
    for (int64_t i = 0; i < group->fields_count; i++)
        if (strcmp(group->fields[i].name, name) == 0) return strtod(group->fields[i].value, NULL) == number;
    return 0;
}

int gyre_is_said_elsewhere(const gyre_reading *reading, const char *key, double number) {
    for (int64_t g = 0; g < reading->groups_count; g++) {
        const gyre_layer_reading *group = reading->groups[g];
        const double dim = (double)group->config.rope.dim, head = (double)group->config.head_dim;
        if (strstr(key, "partial") && head > 0 && number == dim / head) return 1;
        if (strstr(key, "theta") && number == group->config.rope.base) return 1;
        if (strstr(key, "window") && number == (double)group->window) return 1;
        if (strstr(key, "rope") && strstr(key, "dim") && number == dim) return 1;
        if (strstr(key, "nope") && strstr(key, "dim") && dim > 0 && number == head - dim) return 1;
        if ((strstr(key, "position") || strstr(key, "context")) &&
            (number == (double)group->config.trained_length || is_field(group, "max_length", number)))
            return 1;
    }
    return 0;
}

/* -- the walk -- */
typedef struct walk {
    const gyre_json_source *source;
    json_t *warned; /* the whole names of keys that a warning (true) or a field (false) is about */
    int64_t doubts;
    gyre_scope more; /* the object of the first key past the limit */
    const char *more_key;
} walk;

/* out = true, false, or NULL. */
static const json_t *mention_of(const walk *w, const gyre_scope *s, const char *key) {
    char whole[sizeof s->prefix + 200];
    const int length = snprintf(whole, sizeof whole, "%s%s", s->prefix, key);
    return length >= 0 && (size_t)length < sizeof whole ? json_object_get(w->warned, whole) : NULL;
}

static int is_warned(const walk *w, const gyre_scope *s, const char *key) {
    return mention_of(w, s, key) != NULL;
}

static int is_warned_by(const walk *w, const gyre_scope *s, const char *key) {
    return json_is_true(mention_of(w, s, key));
}

static void add_doubt(walk *w, const gyre_scope *s, const char *key) {
    if (++w->doubts <= MAX_DOUBTS) {
        gyre_scope_doubt(s, GYRE_WARNING_UNREAD_KEY, key,
                         "%.60s: its name is that of a position's key, and nothing reads it", key);
    } else if (w->doubts == MAX_DOUBTS + 1) {
        w->more = *s;
        w->more_key = key;
    }
}

/* Towers and other models beside the decoder have readers of their own, or none. */
static int is_entered(const char *key) {
    return !strstr(key, "vision") && !strstr(key, "audio") && !strstr(key, "speech");
}

/* *out = the object under a key of another.  out = 0 if its name is too long. */
static int scope_within(const gyre_scope *parent, const char *key, const json_t *object, gyre_scope *out) {
    *out = (gyre_scope){parent->source, object, ""};
    const int length = snprintf(out->prefix, sizeof out->prefix, "%s%s.", parent->prefix, key);
    return length >= 0 && (size_t)length < sizeof out->prefix;
}

/* out = 1 if a warning is about the whole object: where a scaling's type is refused, or another object replaces it. */
static int is_warned_of_whole(const walk *w, const gyre_scope *parent, const char *key) {
    static const char *const types[] = {"rope_type", "type", NULL};
    gyre_scope inner;
    if (is_warned_by(w, parent, key)) return 1;
    for (int i = 0; types[i] && scope_within(parent, key, NULL, &inner); i++)
        if (is_warned_by(w, &inner, types[i])) return 1;
    return 0;
}

static void walk_object(walk *w, const gyre_scope *s, int depth) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)s->object, key, value) {
        const int was_read = gyre_key_marks_has(w->source->marks, key);
        if (was_read && json_is_object(value) && depth > 0 && is_entered(key)) {
            if (is_warned_of_whole(w, s, key)) continue;
            gyre_scope inner;
            if (scope_within(s, key, value, &inner)) walk_object(w, &inner, depth - 1);
            continue;
        }
        if (was_read || !gyre_is_position_name(key) || says_nothing(value, 2) || is_harmless(s, key, value)) continue;
        if (is_warned(w, s, key)) continue;
        if (json_is_number(value) &&
            gyre_is_said_elsewhere(gyre_build_so_far(w->source->build), key, json_number_value(value)))
            continue;
        add_doubt(w, s, key);
    }
}

/* out = the whole names of keys that a warning or a field is about; NULL without memory. */
static json_t *warned_keys(const gyre_reading *reading) {
    json_t *keys = json_object();
    int bad = !keys;
    for (int64_t g = 0; g < reading->groups_count && !bad; g++)
        for (int64_t i = 0; i < reading->groups[g]->fields_count && !bad; i++)
            if (reading->groups[g]->fields[i].key)
                bad = json_object_set_new(keys, reading->groups[g]->fields[i].key, json_false());
    for (int64_t i = 0; i < reading->warnings_count && !bad; i++)
        if (reading->warnings[i].key) bad = json_object_set_new(keys, reading->warnings[i].key, json_true());
    if (!bad) return keys;
    json_decref(keys);
    return NULL;
}

void gyre_warn_unread_keys(const gyre_json_source *source, const json_t *root) {
    gyre_build *build = source->build;
    if (gyre_build_status(build)) return;
    const gyre_scope s = {source, root, ""};
    walk w = {source, source->marks ? warned_keys(gyre_build_so_far(build)) : NULL, 0, s, NULL};
    if (!w.warned || gyre_key_marks_failed(source->marks)) {
        gyre_build_fail(build, GYRE_ENOMEM, NULL, "model description: no memory");
        json_decref(w.warned);
        return;
    }
    walk_object(&w, &s, MAX_DEPTH);
    if (w.more_key)
        gyre_scope_doubt(&w.more, GYRE_WARNING_UNREAD_KEY, w.more_key,
                         "%lld more keys with names of positions that nothing reads", (long long)(w.doubts - MAX_DOUBTS));
    json_decref(w.warned);
}
