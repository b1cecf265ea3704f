/* audit_ids.c: the ids of special tokens that config.json and generation_config.json name. */
#include "tools/audit/audit.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct ids {
    audit *a;
    const audit_file *file;
    int64_t rows;
    const char *of; /* what has the rows */
    int looked_at, wrong;
} ids;

/* out = why no token has such an id; NULL = one may. */
static const char *fault_of(const ids *s, const char *key, const json_t *value) {
    const double id = json_number_value(value);
    if (!json_is_number(value)) return "not a number";
    if (id != floor(id)) return "not a whole number";
    /* The first llamas have it: none, or the last row. */
    if (id == -1 && strcmp(key, "pad_token_id") == 0) return NULL;
    if (id < 0) return "below 0";
    return s->rows > 0 && id >= (double)s->rows ? "past the last row" : NULL;
}

/* *line = that of the key; -1 = not looked for.  A list has as many faults as elements, and each search is
 * a walk of the text. */
static void check_id(ids *s, const char *key, const json_t *value, int64_t *line) {
    char text[AUDIT_VALUE];
    const char *why = fault_of(s, key, value);
    s->looked_at++;
    if (!why) return;
    s->wrong++;
    audit_value_text(value, text);
    audit_finding *f = s->rows > 0 ? audit_add(s->a, AUDIT_WRONG, "tokens", "%s is %s, which is %s: %s has %" PRId64 " rows",
                                               key, text, why, s->of, s->rows)
                                   : audit_add(s->a, AUDIT_WRONG, "tokens", "%s is %s, which is %s", key, text, why);
    if (*line < 0) *line = audit_file_line(s->file, key);
    audit_set_place(f, "%s, line %" PRId64, s->file->name, *line);
    audit_set_remedy(f, "take the id that the tokenizer gives the token");
}

/* A null is no token, and a list several. */
static void check_key(ids *s, const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key), *element;
    int64_t line = -1;
    size_t i;
    if (!value || json_is_null(value)) return;
    if (!json_is_array(value)) {
        check_id(s, key, value, &line);
        return;
    }
    json_array_foreach((json_t *)value, i, element) check_id(s, key, element, &line);
}

static void check_object(ids *s, const json_t *object) {
    static const char *const keys[] = {"bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id",
                                       "decoder_start_token_id"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        check_key(s, object, keys[i]);
}

/* The weights have precedence; else the config, whose padded size is the larger one. */
static void find_rows(ids *s) {
    const json_t *decoder = audit_decoder(s->a);
    const double stated = json_number_value(json_object_get(decoder, "vocab_size")),
                 padded = json_number_value(json_object_get(decoder, "padded_vocab_size")),
                 rows = padded > stated ? padded : stated;
    s->rows = s->a->vocab > 0 ? s->a->vocab : rows >= 1 && rows < 9e15 ? (int64_t)rows : 0;
    s->of = s->a->vocab > 0 ? "the embedding" : "the vocab_size of the config";
}

gyre_status audit_ids(audit *a, gyre_error *err) {
    ids s = {.a = a, .file = &a->config};
    audit_file generation;
    find_rows(&s);
    if (a->config.root) {
        check_object(&s, a->config.root);
        if (audit_decoder(a) != a->config.root) check_object(&s, audit_decoder(a));
    }
    /* audit_limits has reported faults of the file as a whole. */
    const int count = a->count, dropped = a->dropped[AUDIT_WRONG];
    const gyre_status status = audit_file_find(a, &generation, "generation_config.json", "tokens", err);
    if (!generation.root) a->count = count, a->dropped[AUDIT_WRONG] = dropped;
    audit_recount(a);
    s.file = &generation;
    if (generation.root) check_object(&s, generation.root);
    audit_file_close(&generation);
    if (s.looked_at && !s.wrong && s.rows > 0)
        audit_add(a, AUDIT_OK, "tokens", "%d id%s of special tokens, all within %s of %" PRId64 " rows", s.looked_at,
                  s.looked_at == 1 ? "" : "s", s.of, s.rows);
    return status;
}
