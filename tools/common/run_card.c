/* run_card.c: the run card as a line of text, as JSON and as key-value pairs of a page. */
#include "tools/common/run_card.h"
#include "tools/cli/cli.h"
#include "tools/cli/cli_json.h"
#include "tools/common/model_path.h"
#include "tools/team/team.h"
#include "util/absent_path.h"
#include "util/checkpoint_files.h"
#include "util/fnv1a.h"
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum { HASH = 32 };

static void hash_text(uint64_t hash, char out[HASH]) {
    snprintf(out, HASH, "fnv1a64:%016" PRIx64, hash);
}

/* A file opened as a text of bytes has the hash of its bytes. */
static gyre_status hash_file(const char *path, char out[HASH], gyre_error *err) {
    gyre_text bytes = {0};
    const gyre_status status = gyre_text_open(&bytes, &path, 1, GYRE_TEXT_SPLIT_ALL, 0, err);
    if (!status) hash_text(bytes.hash, out);
    gyre_text_free(&bytes);
    return status;
}

/* In a folder, positions are in config.json, which the hash of the weights does not cover. */
static gyre_status hash_config(run_card *card, gyre_error *err) {
    char path[4096];
    const char *folder = card->input->options->path;
    const int n = snprintf(path, sizeof path, "%s/" GYRE_CONFIG_FILE, folder);
    if (n < 0 || n >= (int)sizeof path) return gyre_fail(err, GYRE_EINVAL, "path: too long (%.300s...)", folder);
    return gyre_is_absent(path) ? GYRE_OK : hash_file(path, card->config_hash, err);
}

int run_card_argv(int argc, char **argv, char **out) {
    int count = 0;
    for (int i = 0; i < argc; i++) {
        const size_t length = strlen(argv[i]);
        const int is_resume = length > strlen("--re") && strncmp(argv[i], "--resume", length) == 0;
        const int is_force = length > strlen("--") && strncmp(argv[i], "--force", length) == 0;
        if (!is_resume && !is_force) out[count++] = argv[i];
    }
    return count;
}

/* Several processes measure one model on the same texts. */
static gyre_status check_ranks(const run_card *card, gyre_error *err) {
    const model_input *in = card->input;
    uint64_t hash = gyre_fnv1a(GYRE_FNV1A_OFFSET_BASIS, card->model_hash, sizeof card->model_hash);
    gyre_status status = team_same("model", gyre_fnv1a(hash, card->config_hash, sizeof card->config_hash), err);
    hash = GYRE_FNV1A_OFFSET_BASIS;
    for (int64_t t = 0; t < in->texts_count; t++) {
        hash = gyre_fnv1a(hash, &in->texts[t].hash, sizeof in->texts[t].hash);
        hash = gyre_fnv1a(hash, &in->texts[t].count, sizeof in->texts[t].count);
    }
    return status ? status : team_same("text", hash, err);
}

gyre_status run_card_make(run_card *out, const model_input *input, const char *methods, int argc, char **argv,
                          gyre_error *err) {
    uint64_t hash;
    *out = (run_card){.input = input, .methods = methods};
    cli_command_line(argc, argv, out->command, sizeof out->command);
    gyre_status status = gyre_model_hash(input->model, &hash, err);
    if (status) return status;
    hash_text(hash, out->model_hash);
    status = hash_config(out, err);
    return status ? status : check_ranks(out, err);
}

/* -- one line -- */
typedef struct line {
    char *out;
    size_t size, used;
} line;

static void add(line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(line *l, const char *format, ...) {
    va_list arguments;
    if (l->used + 1 >= l->size) return;
    va_start(arguments, format);
    const int n = vsnprintf(l->out + l->used, l->size - l->used, format, arguments);
    va_end(arguments);
    if (n > 0) l->used += (size_t)n < l->size - l->used ? (size_t)n : l->size - l->used - 1;
}

const char *run_card_profile(const run_card *card) {
    return gyre_profile_name(model_source(card->input->model).profile);
}

json_t *run_card_key(const run_card *card, json_t *key) {
    json_t *model = json_pack("{s:s, s:s, s:s, s:s}", "gyre", gyre_version(), "model", card->model_hash, "config",
                              card->config_hash, "profile", run_card_profile(card));
    const int failed = !key || !model || json_object_update(key, model);
    json_decref(model);
    return cli_json_checked(key, failed);
}

static void add_model(line *l, const run_card *card) {
    const gyre_model_source source = model_source(card->input->model);
    add(l, "%s %s (%s, %s, %s)", model_path_as_given(card->input->options->path), card->model_hash, source.family,
        source.format, source.stored);
}

static void add_texts(line *l, const model_input *input) {
    for (int64_t i = 0; i < input->texts_count; i++) {
        const gyre_text *text = &input->texts[i];
        char hash[HASH];
        hash_text(text->hash, hash);
        add(l, "%s%s %s (%lld tokens", i ? ", " : "", input->options->texts[i], hash, (long long)text->count);
        add(l, text->bytes ? ", %lld bytes)" : ")", (long long)text->bytes);
    }
}

void run_card_text(const run_card *card, char out[RUN_CARD_LINE]) {
    line l = {out, RUN_CARD_LINE, 0};
    add(&l, "card: model ");
    add_model(&l, card);
    if (card->methods) add(&l, "; methods %s", card->methods);
    if (card->prompts) add(&l, "; prompts %s", card->prompts);
    add(&l, "; read as %s", run_card_profile(card));
    if (card->input->texts_count) add(&l, "; text ");
    add_texts(&l, card->input);
    add(&l, "; gyre %s; %s", gyre_version(), card->command);
    for (char *c = out; *c; c++) /* a name may hold line breaks */
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
}

void run_card_print(const run_card *card, FILE *file) {
    char text[RUN_CARD_LINE];
    run_card_text(card, text);
    cli_page_fold(&(cli_fold){file, cli_page_width(file), 0, RUN_CARD_INDENT, NULL}, text);
}

/* -- JSON -- */
static json_t *text_or_null(const char *text) {
    return cli_json_text(*text ? text : NULL);
}

static json_t *model_json(const run_card *card) {
    const model_input *in = card->input;
    const gyre_model_source source = model_source(in->model);
    return json_pack("{s:o, s:o, s:o, s:s, s:s, s:s, s:I, s:I}", "path",
                     cli_json_text(model_path_as_given(in->options->path)), "hash", text_or_null(card->model_hash),
                     "config_hash", text_or_null(card->config_hash), "family", source.family, "format", source.format,
                     "stored", source.stored, "parameters", (json_int_t)gyre_model_parameters(in->model), "bytes",
                     (json_int_t)source.bytes);
}

static json_t *texts_json(const model_input *in) {
    json_t *texts = json_array();
    for (int64_t i = 0; texts && i < in->texts_count; i++)
        (void)json_array_append_new(texts,
                                    json_pack("{s:o, s:o, s:I, s:o}", "path", cli_json_text(in->options->texts[i]), "hash",
                                              cli_json_hash(in->texts[i].hash), "tokens", (json_int_t)in->texts[i].count,
                                              "bytes", cli_json_nonzero(in->texts[i].bytes)));
    return texts;
}

json_t *run_card_json(const run_card *card) {
    return json_pack("{s:o, s:s, s:o, s:s*, s:o, s:s, s:o}", "model", model_json(card), "profile", run_card_profile(card),
                     "methods", cli_json_text(card->methods), "prompts", card->prompts, "texts", texts_json(card->input),
                     "gyre", gyre_version(), "command", cli_json_text(card->command));
}

/* -- a page -- */
/* Ends a value that was written from offset `begun` on, so that the next one follows its NUL.  out = the value. */
static const char *close_value(line *l, size_t begun) {
    if (l->used + 1 < l->size) l->used++; /* skip the NUL */
    return l->out + begun;
}

void run_card_foot(const run_card *card, const char *date, gyre_report_page *page) {
    char room[RUN_CARD_LINE] = "";
    line l = {room, sizeof room - 1, 0};
    add_model(&l, card);
    const char *model = close_value(&l, 0);
    const size_t begun = l.used;
    add_texts(&l, card->input);
    const gyre_report_key_value all[] = {{"model", model},
                                         {"read as", run_card_profile(card)},
                                         {"methods", card->methods},
                                         {"prompts", card->prompts},
                                         {"text", card->input->texts_count ? close_value(&l, begun) : NULL},
                                         {"gyre", gyre_version()},
                                         {"command", card->command},
                                         {"date", date}};
    gyre_report_key_value known[sizeof all / sizeof *all];
    int64_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].value) known[count++] = all[i];
    (void)gyre_report_page_footer(page, known, count); /* the page keeps the first error */
}
