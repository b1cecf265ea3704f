/* cmd_shard.c: gyre shard: what each rank would hold and send, for a model, a context and a number of ranks. */
#include "tools/cli/plain_stream.h"
#include "tools/common/model_path.h"
#include "tools/options/value_names.h"
#include "tools/shard/shard.h"
#include "tools/subcommands.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char documentation[] =
    "What each rank of a context-parallel group would hold and send, and how long that takes at a given speed. Nothing is "
    "run or sent: plans reach past the machines at hand."
    "\vMODEL is a config.json or a folder with one; or " MODEL_PATH_HELP "\n\n"
    "Keys and values go around a ring; layers with a window fetch those that it reaches. Two times are told: messages "
    "hidden behind attention, as far as they can be, and not "
    "hidden at all. Both leave out what programs lose besides, so they are bounds.\n\n"
    "Examples:\n"
    "  gyre shard config.json --context 1M --ranks 16 --tensor 8 --bandwidth 400Gbit --flops 500T --memory 80GB\n"
    "  gyre shard models/rope --context 10M --ranks 1024 --layout contiguous --json\n";

static const char *const layouts[] = {"contiguous", "zigzag", "striped"};

/* A number with k, M, G or T (of 1000) and a unit.  unit: NULL = none; "B": bytes, or bits under "bit". */
static double quantity(const char *option, const char *text, const char *unit) {
    static const char prefixes[] = "kMGT";
    char *end;
    double value = strtod(text, &end);
    const char *prefix = *end ? strchr(prefixes, *end) : NULL;
    for (long i = prefix ? prefix - prefixes + 1 : 0; i > 0; i--)
        value *= 1000;
    end += prefix != NULL;
    const int bits = unit && strcmp(end, "bit") == 0, known = !*end || bits || (unit && strcmp(end, unit) == 0);
    if (end == text || !known || !(value >= 1) || !(value < 1e21))
        cli_usage_error("%s: \"%s\" is not a number such as %s", option, text, unit ? "100Gbit or 50GB" : "400T");
    return bits ? value / 8 : value;
}

static void read_bytes(const char *option, const char *text, void *at) {
    *(double *)at = quantity(option, text, "B");
}

static void read_rate(const char *option, const char *text, void *at) {
    *(double *)at = quantity(option, text, NULL);
}

#define CLI_STRUCT shard_options
static const cli_option rows[] = {
    {"context", "N", "Tokens of the sequence, up to 2^31: 128k, 1M, 10M", 1, CLI_INTEGER(context, 1, CLI_MAX_TOKENS)},
    {"ranks", "R", "Ranks that the tokens are dealt out to", 1, CLI_INTEGER(ranks, 1, SHARD_MAX_RANKS)},
    {"layout", "contiguous|zigzag|striped", "How they are dealt out (default: zigzag)", 1,
     CLI_CHOICE(gyre_shard_layout, layout, 0)},
    {"tensor", "N", "Devices of a rank, over which heads and weights are split (default: 1)", 1,
     CLI_INTEGER(tensor, 1, 1024)},
    {"gradient", NULL, "Forward and gradient (default: forward alone, the reading of a prompt)", 1, CLI_FLAG(gradient)},
    {"dtype", "f32|f16|bf16", "Type of weights, keys and values (default: bf16)", 1, CLI_CHOICE(gyre_dtype, dtype, 0)},
    {"bandwidth", "X", "From a device to the next, each way: 100Gbit, 50GB (default: 100Gbit)", 2,
     CLI_OTHER(double, bandwidth, read_bytes)},
    {"latency", "SECONDS", "Of a message (default: 0.00001)", 2, CLI_NUMBER(latency, 0, 10)},
    {"flops", "X", "Floating-point operations a second that a device reaches: 400T, 50G (default: 100T)", 2,
     CLI_OTHER(double, flops, read_rate)},
    {"memory", "X", "Of a device: 80GB; says whether the plan fits (default: not asked)", 2,
     CLI_OTHER(double, memory, read_bytes)},
    {"dry-run", NULL, "Only plan. It is all that this subcommand does", 3, CLI_NONE},
    {0}};

/* -- the result -- */
static double held(const shard_plan *p) {
    return p->weights + p->cache + p->blocks + p->state;
}

static const char *bytes_text(double bytes, char out[32]) {
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    int unit = 0;
    for (; bytes >= 999.5 && unit < 5; unit++)
        bytes /= 1000;
    snprintf(out, 32, unit ? "%.3g %s" : "%.0f %s", bytes, units[unit]);
    return out;
}

static void print_model(const shard_model *m, const shard_options *o, FILE *file) {
    fprintf(file, "model      %s: %s, %lld layers, %lld heads", plain_line(o->path), plain_line(m->family),
            (long long)m->layers, (long long)m->heads);
    if (m->latent)
        fprintf(file, ", keys and values from a latent of %lld numbers and %lld rotated ones", (long long)m->latent,
                (long long)m->latent_rope);
    else
        fprintf(file, ", %lld of keys and values, %lld channels a head", (long long)m->kv_heads, (long long)m->head_dim);
    fprintf(file, ", %.4g weights", m->weights);
    if (m->experts > 1) fprintf(file, ", %.4g of them for a token", m->active_weights);
    for (int i = 0; i < m->kinds_count; i++)
        if (m->kinds[i].window > 0)
            fprintf(file, "; %s of %lld keys in %lld layers", m->kinds[i].chunked ? "chunks" : "a window",
                    (long long)m->kinds[i].window, (long long)m->kinds[i].layers);
    fputc('\n', file);
}

/* Where layers differ in their windows: a line for each kind. */
static void print_kinds(const shard_model *m, const shard_options *o, const shard_plan *p, FILE *file) {
    char a[32], b[32];
    for (int i = 0; i < m->kinds_count; i++) {
        const shard_kind_plan *k = &p->kinds[i];
        fprintf(file, "  computes  %.4g pairs of a query and a key a head, the most of a rank; %.3f of the mean", k->pairs,
                shard_imbalance(o, k));
        if (m->kinds[i].window > 0)
            fprintf(file, ", in a layer with %s of %lld: keys of %.0f tokens come from others",
                    m->kinds[i].chunked ? "chunks" : "a window", (long long)m->kinds[i].window, k->fetched);
        else if (m->kinds_count > 1)
            fprintf(file, ", in a layer that sees all keys");
        if (m->kinds_count > 1)
            fprintf(file, "; %lld such layers hold %s and send %s", (long long)m->kinds[i].layers, bytes_text(k->cache, a),
                    bytes_text(k->sent, b));
        fputc('\n', file);
    }
}

static void print_text(const shard_model *m, const shard_options *o, const shard_plan *p, FILE *file) {
    char a[32], b[32], c[32], d[32];
    print_model(m, o, file);
    fprintf(file, "plan       %lld tokens, causal, %s over %lld ranks", (long long)o->context, layouts[o->layout],
            (long long)o->ranks);
    if (o->tensor > 1) fprintf(file, " of %lld devices, which split heads and weights", (long long)o->tensor);
    fprintf(file, "; %s; %s\n\n", dtype_name(o->dtype), o->gradient ? "forward and gradient" : "forward");
    fprintf(file, "each %s\n", o->tensor > 1 ? "device" : "rank");
    fprintf(file, "  holds     %.0f tokens; weights %s, keys and values %s, blocks on their way %s, states of a layer %s\n",
            p->tokens, bytes_text(p->weights, a), bytes_text(p->cache, b), bytes_text(p->blocks, c),
            bytes_text(p->state, d));
    fprintf(file, "            %s in all, without activations%s", bytes_text(held(p), a),
            o->gradient ? ", gradients of weights and the optimiser" : "");
    if (o->memory > 0)
        fprintf(file, held(p) <= o->memory ? "; fits into %s" : "; does NOT fit into %s", bytes_text(o->memory, b));
    fprintf(file, "\n  sends     %.0f messages, of keys and values %s %s; %s in all\n", p->messages,
            bytes_text(p->message, a), m->kinds_count > 1 ? "at most" : "each", bytes_text(p->sent, b));
    print_kinds(m, o, p, file);
    fprintf(file, "\nseconds at %.4g operations a second, %s/s and %g s a message\n", o->flops, bytes_text(o->bandwidth, a),
            o->latency);
    fprintf(file, "  products with weights %.4g, attention %.4g%s, messages %.4g\n", p->linear, p->attention,
            o->layout == GYRE_SHARD_CONTIGUOUS && o->ranks > 1 ? " with its waiting" : "", p->transfer);
    fprintf(file, "  messages hidden      %.4g in all (%.4g of messages not hidden): %.1f %% of the ideal\n", p->overlapped,
            p->exposed, 100 * shard_efficiency(o, p, p->overlapped));
    fprintf(file, "  messages not hidden  %.4g in all: %.1f %% of the ideal\n", p->apart,
            100 * shard_efficiency(o, p, p->apart));
    fprintf(file, "  one rank alone       %.4g\n", p->single);
    fprintf(
        file,
        "Messages hide behind attention that is not causal from %.0f tokens of a rank on, behind causal from twice that.\n",
        ceil(p->hiding_block));
}

static int print_page(const shard_model *m, const shard_options *o, const shard_plan *p, FILE *file) {
    cli_page page;
    print_text(m, o, p, cli_page_begin(&page, file));
    cli_page_end(&page);
    return 0;
}

static json_t *model_json(const shard_model *m, const shard_options *o) {
    return json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "path", cli_json_text(o->path),
                     "family", m->family, "layers", (json_int_t)m->layers, "width", (json_int_t)m->width, "heads",
                     (json_int_t)m->heads, "kv_heads", (json_int_t)m->kv_heads, "head_dim", (json_int_t)m->head_dim,
                     "value_dim", (json_int_t)m->value_dim, "latent", (json_int_t)m->latent, "numbers_of_token",
                     shard_numbers_of_token(m, o), "weights", m->weights, "active_weights", m->active_weights);
}

static json_t *kinds_json(const shard_model *m, const shard_options *o, const shard_plan *p) {
    json_t *kinds = json_array();
    for (int i = 0; i < m->kinds_count; i++) {
        const shard_kind_plan *k = &p->kinds[i];
        json_array_append_new(kinds, json_pack("{s:I, s:I, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "layers",
                                               (json_int_t)m->kinds[i].layers, "window", (json_int_t)m->kinds[i].window,
                                               "chunked", m->kinds[i].chunked, "pairs", k->pairs, "imbalance",
                                               shard_imbalance(o, k), "fetched", k->fetched, "keys_and_values", k->cache,
                                               "message", k->message, "messages", k->messages, "sent", k->sent,
                                               "seconds_of_attention", k->attention, "seconds_of_messages", k->transfer));
    }
    return kinds;
}

static int print_json(const shard_model *m, const shard_options *o, const shard_plan *p, FILE *file) {
    json_t *bytes =
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "weights", p->weights, "keys_and_values", p->cache, "blocks",
                  p->blocks, "states", p->state, "held", held(p), "message", p->message, "sent", p->sent);
    json_t *seconds = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "products", p->linear, "attention", p->attention,
                                "messages", p->transfer, "messages_not_hidden", p->exposed, "hidden", p->overlapped,
                                "not_hidden", p->apart, "one_rank", p->single);
    return cli_json_write(
        file,
        json_pack(
            "{s:o, s:I, s:I, s:I, s:s, s:s, s:b, s:f, s:f, s:f, s:o, s:o, s:I, s:f, s:f, s:o, s:o, s:o, s:f, s:f, s:f}",
            "model", model_json(m, o), "context", (json_int_t)o->context, "ranks", (json_int_t)o->ranks, "tensor",
            (json_int_t)o->tensor, "layout", layouts[o->layout], "dtype", dtype_name(o->dtype), "gradient", o->gradient,
            "bandwidth", o->bandwidth, "latency", o->latency, "flops", o->flops, "memory",
            o->memory > 0 ? json_real(o->memory) : json_null(), "fits",
            o->memory > 0 ? json_boolean(held(p) <= o->memory) : json_null(), "tokens", (json_int_t)p->tokens, "pairs",
            p->kinds[0].pairs, "imbalance", shard_imbalance(o, &p->kinds[0]), "layers", kinds_json(m, o, p), "bytes", bytes,
            "seconds", seconds, "messages", p->messages, "efficiency_hidden", shard_efficiency(o, p, p->overlapped),
            "efficiency_not_hidden", shard_efficiency(o, p, p->apart)));
}

static void check_options(const shard_options *o) {
    if (!o->path) cli_usage_error("MODEL: missing");
    if (!o->context) cli_usage_error("--context: missing; the tokens of the sequence");
    if (!o->ranks) cli_usage_error("--ranks: missing; the number of ranks");
    const int64_t parts = o->layout == GYRE_SHARD_ZIGZAG ? 2 * o->ranks : o->ranks;
    if (o->context < parts)
        cli_usage_error("--context: %lld tokens are fewer than the %lld parts of %s", (long long)o->context,
                        (long long)parts, layouts[o->layout]);
}

int cmd_shard(int argc, char **argv) {
    static const cli_command command = {rows,          CLI_JSON | CLI_OUTPUT, "MODEL --context N --ranks R",
                                        documentation, model_path_argument,   offsetof(shard_options, path),
                                        NULL};
    shard_options o = {.tensor = 1,
                       .layout = GYRE_SHARD_ZIGZAG,
                       .dtype = GYRE_DTYPE_BF16,
                       .bandwidth = 12.5e9,
                       .latency = 1e-5,
                       .flops = 1e14};
    cli_output output;
    shard_model model;
    shard_plan plan;
    gyre_error err = {0, ""};
    cli_parse(&command, argc, argv, &o);
    check_options(&o);
    if (shard_model_read(o.path, &model, &err)) return cli_fail_error(&err);
    if (model.heads % o.tensor)
        return cli_fail("--tensor: %lld do not divide %lld heads (%s)", (long long)o.tensor, (long long)model.heads, o.path);
    const int status = cli_output_open(&output, o.common.output);
    if (status) return status;
    shard_plan_make(&model, &o, &plan);
    return cli_output_close(&output, o.common.json ? print_json(&model, &o, &plan, output.file)
                                                   : print_page(&model, &o, &plan, output.file));
}
