/* tokenizer_json_decoder.c: which decoders of a tokenizer.json do what Gyre does.
 *
 * Pieces: [Replace U+2581 by a space] [ByteFallback] [Fuse] [Strip one space at the start], or Metaspace in place of the
 * first, which removes that space too.  Another order means something else: a Strip before Fuse works on each token, and a
 * Replace after ByteFallback on a U+2581 that the text had. */
#include "tokenizer/tokenizer_json_parts.h"

#include "tokenizer/tokenizer_byte_level.h"
#include "tokenizer/tokenizer_json.h"
#include "util/plain_numbers.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 6 };

/* What the steps so far have done. */
typedef struct walk {
    int byte_level, spaces, bytes, fused, stripped;
    char *why; /* "" = nothing else */
} walk;

static int is_type(const json_t *step, const char *type) {
    return strcmp(gyre_tokenizer_json_string(step, "type"), type) == 0;
}

static void blame(const walk *w, const char *what) {
    if (w->why[0]) return;
    gyre_plain_snprintf(w->why, GYRE_JSON_DECODER_WHY, "%.60s", *what ? what : "a step without a type");
    for (char *c = w->why; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
}

/* 1 if a Metaspace leaves out the space before a text. */
static int metaspace_strips(const json_t *step) {
    const char *scheme = gyre_tokenizer_json_string(step, "prepend_scheme");
    return *scheme ? strcmp(scheme, "never") != 0 : !json_is_false(json_object_get(step, "add_prefix_space"));
}

static int replaces_spaces(const json_t *step) {
    return strcmp(gyre_tokenizer_json_string(json_object_get(step, "pattern"), "String"), GYRE_SPACE_SYMBOL) == 0 &&
           strcmp(gyre_tokenizer_json_string(step, "content"), " ") == 0;
}

static int strips_one_space(const json_t *step) {
    return strcmp(gyre_tokenizer_json_string(step, "content"), " ") == 0 &&
           json_integer_value(json_object_get(step, "start")) == 1 && json_integer_value(json_object_get(step, "stop")) == 0;
}

static void take_step(walk *w, const json_t *step) {
    const int is_first = !w->byte_level && !w->bytes && !w->fused;
    if (is_type(step, "Fuse"))
        w->fused = 1;
    else if (is_type(step, "ByteLevel") && is_first && !w->spaces)
        w->byte_level = 1;
    else if (is_type(step, "Replace") && is_first && !w->spaces && replaces_spaces(step))
        w->spaces = 1;
    else if (is_type(step, "Metaspace") && is_first && !w->spaces &&
             strcmp(gyre_tokenizer_json_string(step, "replacement"), GYRE_SPACE_SYMBOL) == 0) {
        w->spaces = 1;
        w->stripped = metaspace_strips(step);
    } else if (is_type(step, "ByteFallback") && !w->byte_level && !w->bytes && !w->fused)
        w->bytes = 1;
    else if (is_type(step, "Strip") && w->fused && !w->stripped && strips_one_space(step))
        w->stripped = 1;
    else
        blame(w, gyre_tokenizer_json_string(step, "type"));
}

static void walk_steps(walk *w, const json_t *step, int depth) {
    const json_t *list = json_object_get(step, "decoders");
    if (!is_type(step, "Sequence") || depth == MAX_DEPTH) {
        take_step(w, step);
        return;
    }
    for (size_t i = 0; i < json_array_size(list); i++)
        walk_steps(w, json_array_get(list, i), depth + 1);
}

int gyre_tokenizer_json_decoder_fits(const json_t *decoder, gyre_json_decoder_task task, char why[GYRE_JSON_DECODER_WHY]) {
    walk w = {.why = why};
    why[0] = '\0';
    if (!decoder || json_is_null(decoder)) {
        blame(&w, "none, which puts a space between tokens");
        return 0;
    }
    walk_steps(&w, decoder, 0);
    if (task.byte_level != w.byte_level) blame(&w, w.byte_level ? "ByteLevel" : "no ByteLevel");
    if (task.spaces != w.spaces) blame(&w, w.spaces ? "Replace" : "no Replace of U+2581 by a space");
    if (task.bytes && !w.bytes) blame(&w, "no ByteFallback");
    if (task.space_prefix != w.stripped)
        blame(&w, w.stripped ? "Strip of a space that no text gets" : "no Strip of the space before a text");
    return !why[0];
}
