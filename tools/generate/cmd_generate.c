/* cmd_generate.c: gyre generate: continues a prompt. */
#include "tools/common/model_path.h"
#include "tools/common/utf8_text.h"
#include "tools/generate/generate.h"
#include "tools/subcommands.h"
#include <stdlib.h>
#include <string.h>

static json_t *json_of_ids(const int32_t *ids, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; list && i < count; i++)
        (void)json_array_append_new(list, json_integer(ids[i]));
    return list;
}

/* Bytes that are not UTF-8 become U+FFFD; the ids are exact. */
static json_t *json_of_text(const char *text, size_t bytes) {
    const size_t room = 3 * bytes + 1;
    char *plain = malloc(room);
    if (!plain) return NULL;
    utf8_sanitize(plain, room, text, bytes);
    json_t *out = json_string(plain);
    free(plain);
    return out;
}

static double rate(int64_t tokens, double seconds) {
    return seconds > 0 ? (double)tokens / seconds : 0;
}

static int print_json(const generation *g, FILE *file) {
    static const char *const stops[] = {"tokens", "end", "context", "interrupted"};
    const generate_options *o = &g->options;
    const gyre_config *config = gyre_encoding_get_config(g->encoding);
    const int depends = method_depends_on_length(o->method.list, config);
    return cli_json_write(
        file,
        json_pack("{s:o, s:s, s:o, s:I, s:s, s:{s:f, s:f, s:I, s:I}, s:o, s:o, s:o, s:o, s:o, s:s, s:{s:f, s:f}, s:o}",
                  "model", cli_json_text(model_path_as_given(o->model.path)), "method", o->method.list->label,
                  "length_policy", depends ? json_string(gyre_length_policy_name(config->length_policy)) : json_null(),
                  "context", (json_int_t)g->length, "cache", dtype_name(o->method.cache), "sampling", "temperature",
                  o->sampling.temperature, "top_p", o->sampling.top_p, "top_k", (json_int_t)o->sampling.top_k, "seed",
                  (json_int_t)o->seed, "chat_template", o->chat ? json_string(g->chat.form->name) : json_null(), "prompt",
                  json_of_text(g->prompt, g->prompt_bytes), "prompt_ids", json_of_ids(g->prompt_ids, g->prompt_count),
                  "text", json_of_text(g->text, g->bytes), "ids", json_of_ids(g->ids, g->count), "stopped", stops[g->stop],
                  "speed", "prompt_tokens_per_second", rate(g->prompt_count, g->prompt_seconds), "tokens_per_second",
                  rate(g->count, g->seconds), "card", run_card_json(&g->card)));
}

static void print_speed(const generation *g) {
    char prompt[16], text[16];
    fprintf(stderr, "prompt: %lld tokens, %s/s; written: %lld tokens, %s/s\n", (long long)g->prompt_count,
            cli_format_count(rate(g->prompt_count, g->prompt_seconds), prompt), (long long)g->count,
            cli_format_count(rate(g->count, g->seconds), text));
}

static int write_text(generation *g, const cli_output *output) {
    gyre_error err = {0, ""};
    if (!g->options.common.json) g->text_output = output->file;
    cli_defer_signals(); /* Ctrl-C ends the text and not the program */
    if (generate_run(g, &err)) return cli_fail_error(&err);
    if (g->options.common.json) return print_json(g, output->file);
    fputc('\n', output->file);
    (void)fflush(output->file);
    print_speed(g);
    return 0;
}

static int open_output(const generation *g, cli_output *output) {
    const char *path = g->options.common.output;
    return g->options.common.json ? cli_output_open(output, path) : cli_output_open_raw(output, path);
}

int cmd_generate(int argc, char **argv) {
    generation g = {.stop = GENERATE_STOP_TOKENS};
    gyre_error err = {0, ""};
    generate_options_read(argc, argv, &g.options);
    int status = cli_pool_open(&g.options.common, &g.pool, &g.exec);
    if (!status && generate_open(&g, argc, argv, &err)) status = cli_fail_error(&err);
    if (!status) {
        cli_output output;
        status = open_output(&g, &output);
        if (!status) status = cli_output_close(&output, write_text(&g, &output));
    }
    generate_close(&g);
    return status;
}
