/* tokenizer_json_pipeline.c: normalizer and pre_tokenizer of a tokenizer.json.
 *
 * A text must survive encoding and decoding unchanged.  Steps that change it are therefore either undone by the decoder
 * (a space put before the text, spaces written as U+2581) or not applied, with a note. */
#include "core/encoding.h"
#include "tokenizer/pre_tokenizer_patterns.h"
#include "tokenizer/tokenizer_byte_level.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/tokenizer_json_parts.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 6 };

static int is_type(const json_t *step, const char *type) {
    return strcmp(gyre_tokenizer_json_string(step, "type"), type) == 0;
}

static int flag_or(const json_t *object, const char *key, int fallback) {
    const json_t *value = json_object_get(object, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

/* -- normalizer -- */
static void put_space_before(gyre_tokenizer_json_reader *r, const char *prepend) {
    if (r->normalizer_prepends)
        gyre_tokenizer_add_note(r->t, "normalizer Prepend: more than one, and one space is put before a text");
    if (r->normalizer_replaces && *prepend == ' ')
        gyre_tokenizer_add_note(r->t, "normalizer Prepend: a space after the others became U+2581, taken for one of them");
    r->prepend_scheme = GYRE_PREPEND_ALWAYS;
    r->normalizer_prepends = 1;
}

static gyre_status normalizer(gyre_tokenizer_json_reader *r, const json_t *step, int depth) {
    const char *type = gyre_tokenizer_json_string(step, "type");
    gyre_status status = GYRE_OK;
    if (!step || json_is_null(step)) return GYRE_OK;
    if (depth == MAX_DEPTH) return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "normalizer", "normalizer: too deep");
    if (is_type(step, "Sequence")) {
        const json_t *list = json_object_get(step, "normalizers");
        if (!json_is_array(list))
            return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "normalizer", "normalizer Sequence.normalizers: no array");
        for (size_t i = 0; i < json_array_size(list) && !status; i++)
            status = normalizer(r, json_array_get(list, i), depth + 1);
        return status;
    }
    const char *pattern = gyre_tokenizer_json_string(json_object_get(step, "pattern"), "String");
    const char *content = gyre_tokenizer_json_string(step, "content"),
               *prepend = gyre_tokenizer_json_string(step, "prepend");
    if (is_type(step, "Replace") && strcmp(pattern, " ") == 0 && strcmp(content, GYRE_SPACE_SYMBOL) == 0)
        r->spaces = r->normalizer_replaces = 1;
    else if (is_type(step, "Prepend") && (strcmp(prepend, GYRE_SPACE_SYMBOL) == 0 || strcmp(prepend, " ") == 0))
        put_space_before(r, prepend);
    else if (!*type)
        return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "normalizer", "normalizer: a step without a type");
    else
        gyre_tokenizer_add_note(r->t, "normalizer %.40s: not applied, so that every text comes back as it was", type);
    return status;
}

/* -- pre_tokenizer -- */
static gyre_status add_step(const gyre_tokenizer_json_reader *r, const char *field, const char *pattern, int literal,
                            gyre_split_behavior behavior, int inverted) {
    gyre_error why = {0};
    const gyre_status status =
        gyre_pre_tokenizer_add(&r->t->steps, pattern, strlen(pattern), literal, behavior, inverted, &why);
    return !status ? status : gyre_tokenizer_json_fail(r, status, "pre_tokenizer", "%s: %s", field, why.text);
}

static int behavior_of(const json_t *step, gyre_split_behavior *behavior) {
    static const struct {
        const char *name;
        gyre_split_behavior behavior;
    } behaviors[] = {{"Isolated", GYRE_SPLIT_ISOLATED},
                     {"Removed", GYRE_SPLIT_ISOLATED},
                     {"Contiguous", GYRE_SPLIT_CONTIGUOUS},
                     {"MergedWithPrevious", GYRE_SPLIT_MERGED_WITH_PREVIOUS},
                     {"MergedWithNext", GYRE_SPLIT_MERGED_WITH_NEXT}};
    const char *name = gyre_tokenizer_json_string(step, "behavior");
    for (size_t i = 0; i < sizeof behaviors / sizeof *behaviors; i++) {
        if (strcmp(name, behaviors[i].name) != 0) continue;
        *behavior = behaviors[i].behavior;
        return 1;
    }
    return 0;
}

static gyre_status split(gyre_tokenizer_json_reader *r, const json_t *step) {
    const json_t *pattern = json_object_get(step, "pattern");
    const char *string = gyre_tokenizer_json_string(pattern, "String"),
               *regex = gyre_tokenizer_json_string(pattern, "Regex");
    gyre_split_behavior behavior;
    if (!*string && !*regex)
        return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "pre_tokenizer",
                                        "pre_tokenizer Split.pattern: neither String nor Regex");
    if (!behavior_of(step, &behavior))
        return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "pre_tokenizer",
                                        "pre_tokenizer Split.behavior: \"%.40s\" is not known",
                                        gyre_tokenizer_json_string(step, "behavior"));
    if (strcmp(gyre_tokenizer_json_string(step, "behavior"), "Removed") == 0)
        gyre_tokenizer_add_note(r->t,
                                "pre_tokenizer Split: what it removes is kept, so that every text comes back as it was");
    if (r->spaces) { /* the pattern is for text whose spaces have become U+2581, so " " matches nothing */
        if (strcmp(string, " ") == 0) return GYRE_OK;
        if (strcmp(string, GYRE_SPACE_SYMBOL) != 0)
            return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "pre_tokenizer",
                                            "pre_tokenizer Split: a pattern after spaces became U+2581");
        string = " ";
    }
    return add_step(r, "pre_tokenizer Split.pattern", *string ? string : regex, *string != '\0', behavior,
                    flag_or(step, "invert", 0));
}

static gyre_status metaspace(gyre_tokenizer_json_reader *r, const json_t *step) {
    const char *scheme = gyre_tokenizer_json_string(step, "prepend_scheme"),
               *mark = gyre_tokenizer_json_string(step, "replacement");
    if (strcmp(mark, GYRE_SPACE_SYMBOL) != 0)
        return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "pre_tokenizer",
                                        "pre_tokenizer Metaspace.replacement: not U+2581");
    if (!*scheme) scheme = flag_or(step, "add_prefix_space", 1) ? "always" : "never";
    if (strcmp(scheme, "always") == 0 && r->t->steps.count > 0)
        return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "pre_tokenizer",
                                        "pre_tokenizer Metaspace.prepend_scheme: before every word of a step before it");
    r->spaces = 1;
    if (strcmp(scheme, "always") == 0)
        r->prepend_scheme = GYRE_PREPEND_ALWAYS;
    else if (strcmp(scheme, "first") == 0) /* a Prepend of the normalizer comes before all texts between added tokens */
        r->prepend_scheme = r->normalizer_prepends ? GYRE_PREPEND_ALWAYS : GYRE_PREPEND_FIRST;
    else if (strcmp(scheme, "never") != 0)
        return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "pre_tokenizer",
                                        "pre_tokenizer Metaspace.prepend_scheme: \"%.40s\" is not known", scheme);
    if (r->prepend_scheme != GYRE_PREPEND_NEVER)
        gyre_tokenizer_add_note(
            r->t, "pre_tokenizer Metaspace: a text that begins with a space gets another before it all the same");
    return flag_or(step, "split", 1) ? add_step(r, "pre_tokenizer Metaspace", " ", 1, GYRE_SPLIT_MERGED_WITH_NEXT, 0)
                                     : GYRE_OK;
}

static gyre_status byte_level(gyre_tokenizer_json_reader *r, const json_t *step) {
    r->byte_level = 1;
    if (flag_or(step, "add_prefix_space", 1)) {
        if (r->t->steps.count > 0)
            return gyre_tokenizer_json_fail(
                r, GYRE_EUNSUPPORTED, "pre_tokenizer",
                "pre_tokenizer ByteLevel.add_prefix_space: before every word of a step before it");
        r->prepend_scheme = GYRE_PREPEND_ALWAYS;
        gyre_tokenizer_add_note(
            r->t, "pre_tokenizer ByteLevel: a text that begins with a space gets another before it all the same");
    }
    return flag_or(step, "use_regex", 1)
               ? add_step(r, "pre_tokenizer ByteLevel", GYRE_GPT2_PATTERN, 0, GYRE_SPLIT_ISOLATED, 0)
               : GYRE_OK;
}

static gyre_status pre_tokenizer(gyre_tokenizer_json_reader *r, const json_t *step, int depth) {
    gyre_status status = GYRE_OK;
    gyre_split_behavior behavior = GYRE_SPLIT_ISOLATED;
    if (!step || json_is_null(step)) return GYRE_OK;
    if (depth == MAX_DEPTH)
        return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "pre_tokenizer", "pre_tokenizer: too deep");
    if (is_type(step, "Sequence")) {
        const json_t *list = json_object_get(step, "pretokenizers");
        if (!json_is_array(list))
            return gyre_tokenizer_json_fail(r, GYRE_EFORMAT, "pre_tokenizer",
                                            "pre_tokenizer Sequence.pretokenizers: no array");
        for (size_t i = 0; i < json_array_size(list) && !status; i++)
            status = pre_tokenizer(r, json_array_get(list, i), depth + 1);
        return status;
    }
    if (r->byte_level)
        return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "pre_tokenizer", "pre_tokenizer %.40s: a step after ByteLevel",
                                        gyre_tokenizer_json_string(step, "type"));
    if (is_type(step, "ByteLevel")) return byte_level(r, step);
    if (is_type(step, "Metaspace")) return metaspace(r, step);
    if (is_type(step, "Split")) return split(r, step);
    if (is_type(step, "Digits")) {
        behavior = flag_or(step, "individual_digits", 0) ? GYRE_SPLIT_ISOLATED : GYRE_SPLIT_CONTIGUOUS;
        return add_step(r, "pre_tokenizer Digits", "\\p{N}", 0, behavior, 0);
    }
    if (is_type(step, "Punctuation")) {
        if (json_object_get(step, "behavior") && !behavior_of(step, &behavior))
            return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "pre_tokenizer",
                                            "pre_tokenizer Punctuation.behavior is not known");
        return add_step(r, "pre_tokenizer Punctuation", "[\\p{P}$+<=>^`|~]", 0, behavior, 0);
    }
    return gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "pre_tokenizer", "pre_tokenizer \"%.40s\": not known here",
                                    gyre_tokenizer_json_string(step, "type"));
}

/* Decoding undoes what encoding did, whatever the file says. */
static void check_decoder(const gyre_tokenizer_json_reader *r) {
    char why[GYRE_JSON_DECODER_WHY];
    const gyre_json_decoder_task task = {.byte_level = r->byte_level,
                                         .spaces = r->spaces,
                                         .space_prefix = r->prepend_scheme != GYRE_PREPEND_NEVER,
                                         .bytes =
                                             !r->byte_level && json_is_true(json_object_get(r->model, "byte_fallback"))};
    if (!gyre_tokenizer_json_decoder_fits(json_object_get(r->root, "decoder"), task, why))
        gyre_tokenizer_add_note(r->t, "decoder: not followed, so that every text comes back as it was: %s", why);
}

gyre_status gyre_tokenizer_json_pipeline(gyre_tokenizer_json_reader *r) {
    gyre_status status = normalizer(r, json_object_get(r->root, "normalizer"), 0);
    if (!status) status = pre_tokenizer(r, json_object_get(r->root, "pre_tokenizer"), 0);
    if (!status && r->byte_level && r->spaces)
        status =
            gyre_tokenizer_json_fail(r, GYRE_EUNSUPPORTED, "pre_tokenizer", "pre_tokenizer ByteLevel, and spaces as U+2581");
    if (r->byte_level) r->t->info.kind = GYRE_TOKENIZER_BYTE_LEVEL;
    if (!status) check_decoder(r);
    return status;
}
