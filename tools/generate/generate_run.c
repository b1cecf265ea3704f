/* generate_run.c: reads a prompt and generates text. */
#include "tools/common/utf8_text.h"
#include "tools/generate/generate.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    PREFILL_CHUNK = 512,        /* tokens of the prompt between two checks for Ctrl-C */
    MAX_PROMPT = INT32_MAX - 1, /* bytes that gyre_tokenize takes at once */
};

/* -- opening -- */
static gyre_status fail_long(const char *path, gyre_error *err) {
    return gyre_fail(err, GYRE_EINVAL, "prompt: more than 2^31 - 2 bytes (%s)", path);
}

/* *out = what is left of a file, of any kind, up to the first byte too many. */
static gyre_status read_all(FILE *file, const char *path, char **out, size_t *bytes, gyre_error *err) {
    char *text = NULL;
    size_t used = 0, room = 0;
    gyre_status status = GYRE_OK;
    for (size_t n = 1; n && !status && used <= MAX_PROMPT;) {
        if (used == room) {
            room = !room ? 4096 : room <= MAX_PROMPT / 2 ? 2 * room : (size_t)MAX_PROMPT + 1;
            char *more = realloc(text, room);
            if (!more) {
                status = gyre_fail(err, GYRE_ENOMEM, "prompt: out of memory (%s)", path);
                break;
            }
            text = more;
        }
        n = fread(text + used, 1, room - used, file);
        used += n;
    }
    if (!status && ferror(file)) status = gyre_fail(err, GYRE_EIO, "prompt: %s (%s)", strerror(errno), path);
    if (!status && used > MAX_PROMPT) status = fail_long(path, err);
    if (status) {
        free(text);
        return status;
    }
    *out = text;
    *bytes = used;
    if (text) text[used] = 0;
    return GYRE_OK;
}

static gyre_status read_file(const char *path, char **out, size_t *bytes, gyre_error *err) {
    struct stat is;
    FILE *file = fopen(path, "rb");
    if (!file) return gyre_fail(err, GYRE_EIO, "prompt: %s (%s)", strerror(errno), path);
    const int is_long = fstat(fileno(file), &is) == 0 && S_ISREG(is.st_mode) && is.st_size > MAX_PROMPT;
    const gyre_status status = is_long ? fail_long(path, err) : read_all(file, path, out, bytes, err);
    fclose(file);
    return status;
}

static gyre_status tokenize_text(const generation *g, gyre_text *out, gyre_error *err) {
    const unsigned flags = GYRE_TOKENIZE_BEGIN | (g->options.special ? GYRE_TOKENIZE_SPECIAL : 0);
    return gyre_tokenize(g->input.tokenizer, g->prompt, g->prompt_bytes, flags, out, err);
}

static gyre_status tokenize_question(generation *g, gyre_text *out, gyre_error *err) {
    const generate_options *o = &g->options;
    if (memchr(g->prompt, 0, g->prompt_bytes))
        return gyre_fail(err, GYRE_EINVAL, "prompt: a question holds no NUL (--chat)");
    const gyre_status status = chat_open(&g->chat, g->input.tokenizer, o->chat_form, err);
    return status ? status : chat_tokenize(&g->chat, &(chat_question){o->system, g->prompt, NULL, o->special}, out, err);
}

static gyre_status open_prompt(generation *g, gyre_error *err) {
    const generate_options *o = &g->options;
    gyre_status status = GYRE_OK;
    if (o->prompt_file) {
        status = read_file(o->prompt_file, &g->prompt, &g->prompt_bytes, err);
    } else {
        g->prompt = strdup(o->prompt ? o->prompt : "");
        if (!g->prompt) return gyre_fail(err, GYRE_ENOMEM, "prompt: out of memory (generate)");
        g->prompt_bytes = strlen(g->prompt);
    }
    gyre_text prompt = {.ids = NULL};
    if (!status) status = o->chat ? tokenize_question(g, &prompt, err) : tokenize_text(g, &prompt, err);
    if (status) return status;
    g->prompt_ids = prompt.ids;
    g->prompt_count = prompt.count;
    if (!status && !g->prompt_count)
        status =
            gyre_fail(err, GYRE_EINVAL,
                      "prompt: empty, and the model has no token that begins a text; name one with --prompt (generate)");
    return status;
}

/* out = the largest number of tokens that the encoding must cover. */
static int64_t required_length(const generation *g) {
    const generate_options *o = &g->options;
    if (o->window) return o->window;
    return o->context ? o->context : g->prompt_count + o->tokens;
}

static gyre_status open_context(generation *g, gyre_error *err) {
    enum { WINDOWS = 4, MAX_ENLARGED = 1 << 16 };
    const generate_options *o = &g->options;
    gyre_context_options options = GYRE_INIT(gyre_context_options);
    const int64_t length = g->length = required_length(g);
    if (!o->window && g->prompt_count > length)
        return gyre_fail(err, GYRE_EINVAL, "prompt: its %lld tokens are more than --context %lld (generate)",
                         (long long)g->prompt_count, (long long)length);
    gyre_status status = model_input_encoding(&g->input, o->method.list, method_options_policy(&o->method), length,
                                              &o->method.betas, &g->encoding, err);
    if (status) return status;
    options.encoding = g->encoding;
    /* Room for several windows, so that cached tokens are not moved for every new one. */
    options.max_tokens = o->window && o->window < MAX_ENLARGED ? WINDOWS * o->window : length;
    options.cache_dtype = o->method.cache;
    options.order = o->order;
    options.exec = &g->exec;
    status = gyre_context_create(&g->context, g->input.model, &options, err);
    return status || !o->window ? status : gyre_context_stream(g->context, o->sinks, o->window, err);
}

gyre_status generate_open(generation *g, int argc, char **argv, gyre_error *err) {
    gyre_status status = model_input_open(&g->input, &g->options.model, 0, err);
    if (!status) status = model_input_tokenizer(&g->input, err);
    if (!status) status = open_prompt(g, err);
    if (!status && g->options.common.json)
        status = run_card_make(&g->card, &g->input, g->options.method.list->label, argc, argv, err);
    if (!status) status = open_context(g, err);
    if (status) return status;
    g->logits = malloc((size_t)gyre_model_get_config(g->input.model)->vocab * sizeof *g->logits);
    return g->logits ? GYRE_OK : gyre_fail(err, GYRE_ENOMEM, "logits: out of memory (generate)");
}

void generate_close(generation *g) {
    gyre_context_free(g->context);
    gyre_encoding_free(g->encoding);
    gyre_pool_free(g->pool);
    chat_close(&g->chat);
    free(g->prompt);
    free(g->prompt_ids);
    free(g->logits);
    free(g->ids);
    free(g->text);
    model_input_free(&g->input);
    model_options_free(&g->options.model);
    method_options_free(&g->options.method);
}

/* -- writing -- */
/* Prints the complete characters; at_end: all bytes. */
static gyre_status print_text(generation *g, int at_end, gyre_error *err) {
    if (!g->text_output || !g->text) return GYRE_OK;
    const size_t whole = at_end ? g->bytes : g->printed + utf8_complete_prefix(g->text + g->printed, g->bytes - g->printed);
    if (whole == g->printed) return GYRE_OK;
    const size_t bytes = whole - g->printed;
    const size_t written = fwrite(g->text + g->printed, 1, bytes, g->text_output);
    g->printed = whole;
    if (written == bytes && fflush(g->text_output) == 0) return GYRE_OK;
    const char *path = g->options.common.output;
    return gyre_fail(err, GYRE_EIO, "%s: %s (writing the text)", path ? path : "standard output", strerror(errno));
}

/* Without --json, keeps only the text that is not printed yet, so that memory stays bounded for a text without end. */
static void discard_printed(generation *g) {
    if (g->options.common.json || !g->printed) return;
    memmove(g->text, g->text + g->printed, g->bytes - g->printed);
    g->bytes -= g->printed;
    g->printed = 0;
}

static gyre_status append_id(generation *g, int32_t token, gyre_error *err) {
    if (g->options.common.json) {
        if (g->count == g->ids_capacity) {
            const int64_t room = g->ids_capacity ? 2 * g->ids_capacity : 256;
            int32_t *more = realloc(g->ids, (size_t)room * sizeof *more);
            if (!more) return gyre_fail(err, GYRE_ENOMEM, "text: out of memory (generate)");
            g->ids = more;
            g->ids_capacity = room;
        }
        g->ids[g->count] = token;
    }
    g->count++;
    return GYRE_OK;
}

static gyre_status append_text(generation *g, int32_t token, gyre_error *err) {
    char *piece = NULL;
    size_t bytes = 0;
    const gyre_text one = {.ids = &token, .count = 1};
    gyre_status status = gyre_detokenize(g->input.tokenizer, &one, GYRE_TOKENIZE_INSIDE, &piece, &bytes, err);
    if (status) return status;
    discard_printed(g);
    if (g->bytes + bytes > g->text_capacity) {
        const size_t room = 2 * (g->bytes + bytes) + 256;
        char *more = realloc(g->text, room);
        if (more) {
            g->text = more;
            g->text_capacity = room;
        } else {
            status = gyre_fail(err, GYRE_ENOMEM, "text: out of memory (generate)");
        }
    }
    if (!status && bytes) {
        memcpy(g->text + g->bytes, piece, bytes);
        g->bytes += bytes;
    }
    free(piece);
    return status;
}

static gyre_status append_token(generation *g, int32_t token, gyre_error *err) {
    gyre_status status = append_id(g, token, err);
    if (!status) status = append_text(g, token, err);
    return status ? status : print_text(g, 0, err);
}

/* If each read has its own length in use, the prompt is a single read. */
static int64_t prefill_chunk(const generation *g) {
    const gyre_config *config = gyre_encoding_get_config(g->encoding);
    const int whole = config->length_policy == GYRE_LENGTH_POLICY_PREFIX;
    return whole ? g->prompt_count : PREFILL_CHUNK;
}

static gyre_status prefill(generation *g, gyre_error *err) {
    const double started = cli_seconds();
    cli_progress progress;
    gyre_status status = GYRE_OK;
    cli_progress_begin(&progress, "reading the prompt", "tokens", g->prompt_count);
    for (int64_t at = 0, n; at < g->prompt_count && !cli_interrupted() && !status; at += n) {
        n = g->prompt_count - at < prefill_chunk(g) ? g->prompt_count - at : prefill_chunk(g);
        status = gyre_context_forward(g->context, g->prompt_ids + at, n, at + n == g->prompt_count, g->logits, err);
        cli_progress_step(&progress, n, 0);
    }
    cli_progress_end(&progress);
    g->prompt_seconds = cli_seconds() - started;
    return status;
}

/* The last token is not read, because nothing follows it. */
static gyre_status generate_tokens(generation *g, gyre_error *err) {
    const generate_options *o = &g->options;
    const int64_t vocab = gyre_model_get_config(g->input.model)->vocab,
                  max_tokens = o->window ? INT64_MAX : required_length(g);
    const int32_t end = o->ignore_end ? -1 : tokenizer_info(g->input.tokenizer).end,
                  turn_end = o->chat && !o->ignore_end ? g->chat.end : -1;
    uint64_t state = o->seed;
    for (;;) {
        g->stop = GENERATE_STOP_INTERRUPTED;
        if (cli_interrupted()) return GYRE_OK;
        g->stop = GENERATE_STOP_CONTEXT;
        if (g->prompt_count + g->count >= max_tokens) return GYRE_OK;
        const int32_t token = gyre_sample(g->logits, vocab, &o->sampling, &state);
        g->stop = GENERATE_STOP_END;
        if (token == end || token == turn_end) return GYRE_OK;
        gyre_status status = append_token(g, token, err);
        if (status) return status;
        g->stop = GENERATE_STOP_TOKENS;
        if (g->count == o->tokens) return GYRE_OK;
        status = gyre_context_forward(g->context, &token, 1, 1, g->logits, err);
        if (status) return status;
    }
}

gyre_status generate_run(generation *g, gyre_error *err) {
    if (g->options.echo && g->text_output) fwrite(g->prompt, 1, g->prompt_bytes, g->text_output);
    gyre_status status = prefill(g, err);
    const double started = cli_seconds();
    if (!status) status = generate_tokens(g, err);
    g->seconds = cli_seconds() - started;
    const gyre_status printed = print_text(g, 1, status ? NULL : err);
    return status ? method_name_failure(status, g->options.method.list->label, g->length, err) : printed;
}
