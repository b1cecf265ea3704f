/* config_edit.c: edits the text of a JSON file by splicing. */
#include "reading/config_edit.h"

#include "files/json_locate.h"
#include "files/json_write.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

static const char space[] = " \t\r\n";

/* -- growing text -- */
/* After running out of memory, `failed` stays set. */
typedef struct text_buffer {
    char *text;
    size_t length, capacity;
    int failed;
} text_buffer;

static void append_bytes(text_buffer *p, const char *bytes, size_t count) {
    if (p->failed) return;
    if (!p->text || p->length + count + 1 > p->capacity) {
        const size_t capacity = 2 * (p->length + count) + 64;
        char *larger = realloc(p->text, capacity);
        p->failed = !larger;
        if (!larger) return;
        p->text = larger;
        p->capacity = capacity;
    }
    if (count > 0) memcpy(p->text + p->length, bytes, count);
    p->length += count;
    p->text[p->length] = '\0';
}

static void append(text_buffer *p, const char *text) {
    append_bytes(p, text, strlen(text));
}

/* -- the state -- */
static void out_of_memory(gyre_config_edit *edit) {
    if (!edit->status) edit->status = gyre_fail(edit->err, GYRE_ENOMEM, "config.json: no memory to change it");
}

void gyre_edit_begin(gyre_config_edit *edit, const char *text, size_t bytes, gyre_error *err) {
    *edit = (gyre_config_edit){malloc(bytes + 1), bytes, GYRE_OK, err};
    if (!edit->text) {
        out_of_memory(edit);
        return;
    }
    memcpy(edit->text, text, bytes);
    edit->text[bytes] = '\0';
}

void gyre_edit_end(gyre_config_edit *edit) {
    free(edit->text);
    edit->text = NULL;
    edit->bytes = 0;
}

/* Replaces bytes from .. to - 1 by the text of the pen, and empties the pen. */
static void splice(gyre_config_edit *edit, size_t from, size_t to, text_buffer *p) {
    const size_t tail = edit->bytes - to, bytes = from + p->length + tail;
    char *text = p->failed ? NULL : malloc(bytes + 1);
    if (text) {
        memcpy(text, edit->text, from);
        if (p->length > 0) memcpy(text + from, p->text, p->length);
        memcpy(text + from + p->length, edit->text + to, tail);
        text[bytes] = '\0';
        free(edit->text);
        edit->text = text;
        edit->bytes = bytes;
    } else {
        out_of_memory(edit);
    }
    free(p->text);
    *p = (text_buffer){NULL, 0, 0, 0};
}

/* -- places -- */
/* *out = the member, with offsets into the whole text. */
static int find_member(const gyre_config_edit *edit, const gyre_json_member *object, const char *key,
                       gyre_json_member *out) {
    if (!gyre_json_locate(edit->text + object->value, object->end - object->value, key, out)) return 0;
    out->key += object->value;
    out->value += object->value;
    out->end += object->value;
    return 1;
}

int gyre_edit_has(const gyre_config_edit *edit, const char *object, const char *key) {
    gyre_json_member place, member;
    return !edit->status && gyre_json_locate_object(edit->text, edit->bytes, object, &place) &&
           find_member(edit, &place, key, &member);
}

static int is_space(char c) {
    return c != '\0' && strchr(space, c) != NULL;
}

static size_t skip_space(const gyre_config_edit *edit, size_t at) {
    while (at < edit->bytes && is_space(edit->text[at]))
        at++;
    return at;
}

/* out = the first byte of the white space that ends before `at`. */
static size_t skip_space_back(const gyre_config_edit *edit, size_t at) {
    while (at > 0 && is_space(edit->text[at - 1]))
        at--;
    return at;
}

/* -- the style of a file -- */
/* White space between members, either literals or pieces of the text: before a key that is not the first, before the
 * closing brace, around a colon. */
typedef struct style {
    text_buffer before_key, before_brace;
    char colon[16];
} style;

static void style_free(style *s) {
    free(s->before_key.text);
    free(s->before_brace.text);
}

static int has_newline(const text_buffer *p) {
    return p->text && strchr(p->text, '\n') != NULL;
}

/* colon = what is between the first key of the object and its value; ": " if there is no key or too much white space. */
static void copy_colon(const gyre_config_edit *edit, size_t brace, char colon[16]) {
    size_t at = skip_space(edit, brace + 1), from;
    memcpy(colon, ": ", sizeof ": ");
    if (edit->text[at] != '"') return;
    for (at++; at < edit->bytes && edit->text[at] != '"'; at++)
        if (edit->text[at] == '\\') at++;
    from = ++at;
    at = skip_space(edit, at);
    if (at >= edit->bytes || edit->text[at] != ':') return;
    at = skip_space(edit, at + 1);
    if (at - from >= 16 || at > edit->bytes) return;
    memcpy(colon, edit->text + from, at - from);
    colon[at - from] = '\0';
}

/* Appends the white space at the start of the line that contains `at`. */
static void append_line_indent(const gyre_config_edit *edit, size_t at, text_buffer *p) {
    while (at > 0 && edit->text[at - 1] != '\n')
        at--;
    const size_t from = at;
    while (at < edit->bytes && (edit->text[at] == ' ' || edit->text[at] == '\t'))
        at++;
    append_bytes(p, edit->text + from, at - from);
}

/* The style of an object that has a key: whether its keys are on lines of their own, and how they are indented. */
static void style_of_members(const gyre_config_edit *edit, const gyre_json_member *object, style *s) {
    const size_t first = skip_space(edit, object->value + 1), end = skip_space_back(edit, object->end - 1);
    append_bytes(&s->before_key, edit->text + object->value + 1, first - object->value - 1);
    append_bytes(&s->before_brace, edit->text + end, object->end - 1 - end);
    /* The one-line style "{"a": 1, "b": 2}" has a space after commas and none after the brace. */
    if (!has_newline(&s->before_key)) {
        s->before_key.length = 0;
        append(&s->before_key, s->colon[strlen(s->colon) - 1] == ':' ? "" : " ");
    }
}

/* The style of a new object for the key at `key`: indented one step further than the line of the key.  One step is the
 * indent of the file's top-level keys. */
static void style_of_new(const gyre_config_edit *edit, size_t key, style *s) {
    gyre_json_member root;
    style whole = {{NULL, 0, 0, 0}, {NULL, 0, 0, 0}, ": "};
    if (gyre_json_locate_object(edit->text, edit->bytes, "", &root)) style_of_members(edit, &root, &whole);
    /* In a file or an object on one line, the new object is on one line, too. */
    const size_t line = skip_space_back(edit, key);
    const int own_line = memchr(edit->text + line, '\n', key - line) != NULL;
    if (has_newline(&whole.before_key) && own_line) {
        const char *step = strrchr(whole.before_key.text, '\n') + 1;
        const char *line_end = strchr(whole.before_key.text, '\r') ? "\r\n" : "\n";
        append(&s->before_brace, line_end);
        append_line_indent(edit, key, &s->before_brace);
        append(&s->before_key, s->before_brace.text ? s->before_brace.text : "");
        append(&s->before_key, step);
    } else {
        append(&s->before_key, s->colon[strlen(s->colon) - 1] == ':' ? "" : " ");
        append(&s->before_brace, "");
    }
    s->before_key.failed |= whole.before_key.failed;
    style_free(&whole);
}

/* -- values -- */
/* Prints the fewest digits that read back as the same number, in any locale: 0.1, not 0.10000000000000001. */
static void append_value(text_buffer *p, const json_t *value) {
    char *text = NULL;
    for (size_t digits = 1; digits <= 17; digits++) {
        free(text);
        text = gyre_json_text(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
        json_t *back = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
        const int same = json_equal(value, back);
        json_decref(back);
        if (same || !text) break;
    }
    if (text)
        append(p, text);
    else
        p->failed = 1;
    free(text);
}

/* A list has one number per line, indented one step further than its key, if the key has its own line. */
static void append_list(text_buffer *p, const json_t *list, const style *s) {
    const int lines = has_newline(&s->before_key);
    append(p, "[");
    for (size_t i = 0; i < json_array_size(list); i++) {
        append(p, i > 0 ? "," : "");
        if (lines || i > 0) append(p, s->before_key.text);
        append_value(p, json_array_get(list, i));
    }
    if (lines) append(p, s->before_brace.text);
    append(p, "]");
}

static void append_object(text_buffer *p, json_t *object, const style *s) {
    const char *key;
    json_t *value;
    int first = 1;
    append(p, "{");
    json_object_foreach(object, key, value) {
        if (!first) append(p, ",");
        if (!first || has_newline(&s->before_key)) append(p, s->before_key.text);
        append(p, "\"");
        append(p, key);
        append(p, "\"");
        append(p, s->colon);
        append_value(p, value);
        first = 0;
    }
    if (!first && has_newline(&s->before_key)) append(p, s->before_brace.text);
    append(p, "}");
}

/* key: offset of the value's key. */
static void append_any(const gyre_config_edit *edit, size_t key, const char colon[16], json_t *value, text_buffer *p) {
    style s = {{NULL, 0, 0, 0}, {NULL, 0, 0, 0}, ": "};
    memcpy(s.colon, colon, sizeof s.colon);
    style_of_new(edit, key, &s);
    p->failed |= s.before_key.failed || s.before_brace.failed;
    if (p->failed)
        ;
    else if (json_is_object(value))
        append_object(p, value, &s);
    else if (json_is_array(value))
        append_list(p, value, &s);
    else
        append_value(p, value);
    style_free(&s);
}

/* -- changes -- */
/* out = 1 if the file has this value already.  4 and 4.0 are the same number. */
static int has_same_value(const gyre_config_edit *edit, const gyre_json_member *member, const json_t *value) {
    json_t *old = json_loadb(edit->text + member->value, member->end - member->value, JSON_DECODE_ANY, NULL);
    const int same = json_equal(old, value) ||
                     (json_is_number(old) && json_is_number(value) && json_number_value(old) == json_number_value(value));
    json_decref(old);
    return same;
}

static void replace_value(gyre_config_edit *edit, const gyre_json_member *object, const gyre_json_member *member,
                          json_t *value) {
    text_buffer p = {NULL, 0, 0, 0};
    char colon[16] = "";
    if (has_same_value(edit, member, value)) return;
    copy_colon(edit, object->value, colon);
    append_any(edit, member->key, colon, value, &p);
    splice(edit, member->value, member->end, &p);
}

/* Inserts the key with null as its value; the value is then set as in any other member. */
static void insert_null(gyre_config_edit *edit, const gyre_json_member *object, const char *key, const char *after) {
    const size_t end = skip_space_back(edit, object->end - 1);
    const int empty = end == object->value + 1;
    gyre_json_member sibling;
    style s = {{NULL, 0, 0, 0}, {NULL, 0, 0, 0}, ": "};
    text_buffer p = {NULL, 0, 0, 0};
    size_t at = end, to = end;
    copy_colon(edit, object->value, s.colon);
    if (empty) {
        style_of_new(edit, object->key, &s);
        to = object->end - 1;
    } else {
        style_of_members(edit, object, &s);
        if (after && find_member(edit, object, after, &sibling)) at = to = sibling.end;
        append(&p, ",");
    }
    p.failed |= s.before_key.failed || s.before_brace.failed;
    if (!p.failed && (!empty || has_newline(&s.before_key))) append(&p, s.before_key.text);
    append(&p, "\"");
    append(&p, key);
    append(&p, "\"");
    append(&p, s.colon);
    append(&p, "null");
    if (!p.failed && empty && has_newline(&s.before_key)) append(&p, s.before_brace.text);
    splice(edit, at, to, &p);
    style_free(&s);
}

void gyre_edit_set(gyre_config_edit *edit, const char *object, const char *key, json_t *value, const char *after) {
    gyre_json_member place, member;
    if (!value) out_of_memory(edit);
    if (edit->status) goto done;
    if (!gyre_json_locate_object(edit->text, edit->bytes, object, &place)) {
        edit->status = gyre_fail(edit->err, GYRE_EFORMAT, "%s: no object to set \"%s\" in (config.json)", object, key);
        goto done;
    }
    if (!find_member(edit, &place, key, &member)) {
        insert_null(edit, &place, key, after);
        if (edit->status || !gyre_json_locate_object(edit->text, edit->bytes, object, &place) ||
            !find_member(edit, &place, key, &member))
            goto done;
    }
    replace_value(edit, &place, &member, value);
done:
    json_decref(value);
}

void gyre_edit_remove(gyre_config_edit *edit, const char *object, const char *key) {
    gyre_json_member place, member;
    text_buffer nothing = {NULL, 0, 0, 0};
    if (edit->status || !gyre_json_locate_object(edit->text, edit->bytes, object, &place) ||
        !find_member(edit, &place, key, &member))
        return;
    size_t from = member.key, to = skip_space(edit, member.end);
    if (to < edit->bytes && edit->text[to] == ',') {
        to = skip_space(edit, to + 1); /* the next key takes its place */
    } else {
        /* For the last key, the comma before it is removed.  The white space before the brace stays. */
        from = skip_space_back(edit, member.key);
        if (from > 0 && edit->text[from - 1] == ',') from = skip_space_back(edit, from - 1), to = member.end;
    }
    splice(edit, from, to, &nothing);
}
