#include "convert/convert_vocab_pipeline.h"

#include "tokenizer/tokenizer_byte_level.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 6 };

static const char *text_at(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static int is_type(const json_t *step, const char *type) {
    return strcmp(text_at(step, "type"), type) == 0;
}

static int flag_or(const json_t *object, const char *key, int fallback) {
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

static void refuse(gyre_convert_pipeline *p, const char *field, const json_t *step, const char *option) {
    char type[33];
    if (p->refused[0]) return;
    snprintf(type, sizeof type, "%s", text_at(step, "type"));
    for (char *c = type; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
    snprintf(p->refused, sizeof p->refused, "%s%s%s%s", field, *type ? " " : "", type, option);
}

/* -- normalizer -- */
/* NFC is left out: programs that read a GGUF take a text as it is. */
static void read_normalizer(gyre_convert_pipeline *p, const json_t *step, int depth) {
    const char *prepend = text_at(step, "prepend");
    if (!step || json_is_null(step)) return;
    if (is_type(step, "NFC")) {
        p->nfc = 1;
        return;
    }
    if (is_type(step, "Sequence") && depth < MAX_DEPTH) {
        const json_t *list = json_object_get(step, "normalizers");
        for (size_t i = 0; i < json_array_size(list); i++)
            read_normalizer(p, json_array_get(list, i), depth + 1);
        return;
    }
    if (is_type(step, "Replace") && strcmp(text_at(json_object_get(step, "pattern"), "String"), " ") == 0 &&
        strcmp(text_at(step, "content"), GYRE_SPACE_SYMBOL) == 0)
        p->spaces = p->normalizer_replaces = 1;
    else if (is_type(step, "Prepend") && !p->normalizer_prepends &&
             (strcmp(prepend, GYRE_SPACE_SYMBOL) == 0 || (strcmp(prepend, " ") == 0 && !p->normalizer_replaces)))
        p->space_prefix = p->normalizer_prepends = 1;
    else
        refuse(p, "normalizer", step, "");
}

/* -- pre_tokenizer -- */
static void read_split(gyre_convert_pipeline *p, const json_t *step) {
    const json_t *pattern = json_object_get(step, "pattern");
    if (p->spaces && strcmp(text_at(pattern, "String"), " ") == 0) return; /* there are no spaces any more */
    if (p->spaces || !*text_at(pattern, "Regex") || *text_at(pattern, "String"))
        refuse(p, "pre_tokenizer", step, ".pattern");
    else if (strcmp(text_at(step, "behavior"), "Isolated") != 0)
        refuse(p, "pre_tokenizer", step, ".behavior");
    else if (flag_or(step, "invert", 0))
        refuse(p, "pre_tokenizer", step, ".invert");
    p->splits++;
    p->pattern = text_at(pattern, "Regex");
}

static void read_metaspace(gyre_convert_pipeline *p, const json_t *step) {
    const char *scheme = text_at(step, "prepend_scheme");
    if (strcmp(text_at(step, "replacement"), GYRE_SPACE_SYMBOL) != 0) refuse(p, "pre_tokenizer", step, ".replacement");
    p->spaces = 1;
    p->space_prefix |= *scheme ? strcmp(scheme, "never") != 0 : flag_or(step, "add_prefix_space", 1);
    p->cuts_before_spaces |= flag_or(step, "split", 1);
}

static void read_step(gyre_convert_pipeline *p, const json_t *step) {
    if (p->byte_level) {
        refuse(p, "pre_tokenizer", step, " after ByteLevel");
    } else if (is_type(step, "ByteLevel")) {
        p->byte_level = 1;
        p->gpt2_pattern = flag_or(step, "use_regex", 1);
        if (flag_or(step, "add_prefix_space", 1)) refuse(p, "pre_tokenizer", step, ".add_prefix_space");
    } else if (is_type(step, "Metaspace")) {
        read_metaspace(p, step);
    } else if (is_type(step, "Split")) {
        read_split(p, step);
    } else if (is_type(step, "Digits") && flag_or(step, "individual_digits", 0)) {
        p->digits = 1;
    } else {
        refuse(p, "pre_tokenizer", step, "");
    }
}

static void read_pre_tokenizer(gyre_convert_pipeline *p, const json_t *step, int depth) {
    if (!step || json_is_null(step)) return;
    if (!is_type(step, "Sequence") || depth == MAX_DEPTH) {
        read_step(p, step);
        return;
    }
    const json_t *list = json_object_get(step, "pretokenizers");
    for (size_t i = 0; i < json_array_size(list); i++)
        read_pre_tokenizer(p, json_array_get(list, i), depth + 1);
}

gyre_convert_pipeline gyre_convert_pipeline_of(const json_t *root) {
    gyre_convert_pipeline p = {.pattern = ""};
    read_normalizer(&p, json_object_get(root, "normalizer"), 0);
    read_pre_tokenizer(&p, json_object_get(root, "pre_tokenizer"), 0);
    const json_t *none = NULL;
    if (p.byte_level && (p.spaces || p.space_prefix)) refuse(&p, "normalizer", none, ": spaces of byte-level tokens");
    if (p.byte_level && (p.splits > 1 || p.splits + p.gpt2_pattern != 1 || (p.splits && p.digits)))
        refuse(&p, "pre_tokenizer", none, ": words that llama.cpp has no name for");
    if (!p.byte_level && (p.splits || p.digits)) refuse(&p, "pre_tokenizer", none, ": words of pieces");
    if (!p.byte_level && !p.spaces) refuse(&p, "normalizer", none, ": spaces that stay spaces");
    return p;
}
