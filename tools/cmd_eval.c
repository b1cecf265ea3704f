/* cmd_eval.c: gyre eval: perplexity against context, a row per method. */
#include "cli.h"
#include "gyre/gyre_model.h"
#include "gyre/gyre_report.h"
#include "methods.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POLICIES = 3 };

typedef struct eval_options {
    cli_options common;
    const char *folder, *ids;
    const char **texts; /* [texts_count] of argv */
    int64_t texts_count;
    int64_t *contexts, contexts_count;
    method *methods;
    int64_t methods_count;
    gyre_length_policy policies[POLICIES]; /* [policies_count], in the order asked for; none = the model's own */
    int64_t policies_count;
    int64_t stride, windows, passkey; /* 0 = half the context, all, none */
    gyre_protocol protocol;
    method_betas betas;
} eval_options;

/* A method, under one of the ways to say what the length in use is where its rotation depends on that. */
typedef struct eval_row {
    const method *method;
    gyre_length_policy policy;
    int follows; /* 1: it does */
} eval_row;

/* One method at one context. */
typedef struct cell {
    double factor, attention_factor, far_factor; /* far_factor, window: of far pairs; 0 = none differ, or no such number */
    int64_t window;
    gyre_parts parts;
    int rotates, out_of_range; /* out_of_range: the encoding ends before the context does */
    gyre_eval_result figures;
    gyre_passkey_result passkey;
    gyre_error note;
} cell;

typedef struct evaluation {
    const eval_options *options;
    gyre_model *model;
    gyre_text text;
    gyre_pool *pool;
    gyre_exec exec;
    eval_row *rows; /* [rows_count] */
    int64_t rows_count;
    cell *cells; /* [rows_count][contexts_count] */
    cli_progress progress;
    int64_t planned; /* tokens to read up to and with the cell under work */
} evaluation;

/* -- options --------------------------------------------------------------------------------------------------------- */
enum {
    KEY_TEXT = CLI_FIRST_KEY,
    KEY_IDS,
    KEY_CONTEXTS,
    KEY_METHODS,
    KEY_STRIDE,
    KEY_WINDOWS,
    KEY_PROTOCOL,
    KEY_BETA_FAST,
    KEY_BETA_SLOW,
    KEY_PASSKEY,
    KEY_LENGTH_POLICY
};

static const int64_t most_tokens = (int64_t)1 << 31; /* positions end there */
static const char *const protocol_names[] = {[GYRE_SLIDING] = "sliding", [GYRE_TRUNCATE] = "truncate", [GYRE_LAST] = "last"};
static const char *const policy_names[] = {
    [GYRE_LENGTH_DECLARED] = "declared", [GYRE_LENGTH_CAUSAL] = "causal", [GYRE_LENGTH_PREFIX] = "prefix", "all"};

static const struct argp_option option_table[] = {
    {"text", KEY_TEXT, "PATH", 0, "Text to read as bytes; a folder stands for all files under it. Repeat for more", 1},
    {"ids", KEY_IDS, "FILE", 0, "Token ids to read in place of text: decimal numbers between white space or commas", 1},
    {"contexts", KEY_CONTEXTS, "LIST", 0,
     "Context lengths in tokens, rising, such as 256,512,1k; k = 1024 (default: 1, 2 and 4 times the trained length)", 2},
    {"methods", KEY_METHODS, "LIST", 0,
     "Out of " METHOD_NAMES ", each alone (scaled for every context L by max(1, L / trained length)) or with a factor that "
     "stays the same at every context, as in ntk:4; dynamic is transformers' formula at length L, its factor 1 unless "
     "given; dynamic-yarn is yarn with the factor of length L; "
     "none is the model as its config says, the others replace a scaling it holds (default: none). rerope:WINDOW, "
     "leaky:FACTOR and self-extend:GROUP turn pairs less that are further apart than half the trained length; any "
     "of " METHOD_MODIFIERS " may follow a name, as in yarn:4+resonance",
     3},
    {"length-policy", KEY_LENGTH_POLICY, "LIST", 0,
     "Out of declared, causal, prefix, or all of them: a row for each, for methods whose rotation depends on the length in "
     "use (dynamic, dynamic-yarn, and none where the model has LongRoPE or one of those). declared: L for all of a window; "
     "causal: for each token, of the tokens up to it, rounded up to 64; prefix: as an engine that generates "
     "has it, of the tokens before the first one scored for all of those, then for each pass of 64, up to its end (default: "
     "as the model's config says, which is declared)",
     4},
    {"protocol", KEY_PROTOCOL, "NAME", 0,
     "sliding: windows of L tokens every --stride, the last stride predictions of each scored; truncate: windows side by "
     "side, every prediction scored; last: as sliding, the last 200 predictions scored (default: sliding)",
     5},
    {"stride", KEY_STRIDE, "N", 0, "Tokens from window to window, at most the shortest context (default: L / 2)", 6},
    {"windows", KEY_WINDOWS, "N", 0, "Windows per context at most, spread over the text; 0 = all (default: 0)", 6},
    {"beta-fast", KEY_BETA_FAST, "X", 0,
     "by-parts and yarn: turns over the trained length above which a pair is kept (default: 32)", 4},
    {"beta-slow", KEY_BETA_SLOW, "X", 0, "by-parts and yarn: turns below which a pair is divided (default: 1)", 4},
    {"passkey", KEY_PASSKEY, "N", 0,
     "Also ask for keys hidden in the text, N trials or a few more per context; needs --text (default: 0 = do not)", 7},
    {0}};

static const char documentation[] =
    "Measures how well a model predicts a text at each context length, under each method to extend its context. Every "
    "method "
    "reads the same windows. MODEL is a folder with config.json and model.safetensors."
    "\v"
    "Prints perplexity per token, bits per byte (per token with --ids), and how many pairs of a head the method keeps as "
    "trained, blends, and divides by its factor at the longest context.\n"
    "Example: gyre eval models/rope --text README.md --contexts 256,512,1k --methods none,linear,ntk,ntk:4,yarn";

static void set_methods(eval_options *o, const char *list) {
    gyre_error err = {0, ""};
    free(o->methods);
    if (methods_parse(list, &o->methods, &o->methods_count, &err)) cli_usage("%s", err.text);
}

static void set_policies(eval_options *o, const char *list) {
    o->policies_count = 0;
    for (const char *name = list;; name++) {
        char one[16];
        const size_t length = strcspn(name, ",");
        snprintf(one, sizeof one, "%.*s", length < sizeof one ? (int)length : (int)sizeof one - 1, name);
        const int policy = cli_choice("--length-policy", one, policy_names, POLICIES + 1);
        for (int p = 0; p < POLICIES; p++) {
            int known = policy != p && policy != POLICIES;
            for (int64_t i = 0; i < o->policies_count; i++)
                known |= (int)o->policies[i] == p;
            if (!known) o->policies[o->policies_count++] = (gyre_length_policy)p;
        }
        name += length;
        if (!*name) return;
    }
}

static void set_contexts(eval_options *o, const char *list) {
    o->contexts_count = cli_integers("--contexts", list, 2, most_tokens, &o->contexts);
    for (int64_t i = 1; i < o->contexts_count; i++)
        if (o->contexts[i] <= o->contexts[i - 1])
            cli_usage("--contexts: %lld after %lld does not rise", (long long)o->contexts[i], (long long)o->contexts[i - 1]);
}

static error_t parse_option(int key, char *text, struct argp_state *state) {
    eval_options *o = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (o->folder) return ARGP_ERR_UNKNOWN;
        o->folder = text;
        return 0;
    case KEY_TEXT:
        o->texts[o->texts_count++] = text;
        return 0;
    case KEY_IDS:
        o->ids = text;
        return 0;
    case KEY_CONTEXTS:
        set_contexts(o, text);
        return 0;
    case KEY_METHODS:
        set_methods(o, text);
        return 0;
    case KEY_LENGTH_POLICY:
        set_policies(o, text);
        return 0;
    case KEY_PROTOCOL:
        o->protocol = (gyre_protocol)cli_choice("--protocol", text, protocol_names, 3);
        return 0;
    case KEY_STRIDE:
        o->stride = cli_integer("--stride", text, 1, most_tokens);
        return 0;
    case KEY_WINDOWS:
        o->windows = cli_integer("--windows", text, 0, most_tokens);
        return 0;
    case KEY_BETA_FAST:
        o->betas.fast = cli_number("--beta-fast", text, 1e-6, 1e9);
        return 0;
    case KEY_BETA_SLOW:
        o->betas.slow = cli_number("--beta-slow", text, 1e-6, 1e9);
        return 0;
    case KEY_PASSKEY:
        o->passkey = cli_integer("--passkey", text, 0, 1000000);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* What needs no model to be known as wrong. */
static void check_options(const eval_options *o) {
    if (!o->folder) cli_usage("MODEL: missing; name a model folder");
    if (!o->texts_count && !o->ids) cli_usage("--text: missing; name a text, or token ids with --ids");
    if (o->texts_count && o->ids) cli_usage("--ids: takes the place of --text; give one of them");
    if (o->ids && o->passkey) cli_usage("--passkey: hides keys among bytes; it needs --text");
    if (o->betas.fast < o->betas.slow) cli_usage("--beta-fast: %g is below --beta-slow %g", o->betas.fast, o->betas.slow);
    if (o->stride && o->protocol == GYRE_TRUNCATE)
        cli_usage("--stride: the windows of --protocol truncate lie side by side");
    if (o->contexts_count && o->stride > o->contexts[0])
        cli_usage("--stride: %lld is above the shortest context %lld", (long long)o->stride, (long long)o->contexts[0]);
}

static void read_options(int argc, char **argv, eval_options *o) {
    const struct argp argp = {.options = option_table, .parser = parse_option, .args_doc = "MODEL", .doc = documentation};
    *o = (eval_options){.protocol = GYRE_SLIDING, .betas = {32, 1}};
    o->texts = calloc((size_t)argc, sizeof *o->texts);
    if (!o->texts) cli_usage("--text: out of memory for %d arguments", argc);
    cli_parse(&argp, CLI_THREADS | CLI_JSON | CLI_OUTPUT, argc, argv, &o->common);
    if (!o->methods) set_methods(o, "none");
    check_options(o);
}

/* -- input ----------------------------------------------------------------------------------------------------------- */
/* Leaves o->contexts NULL, the reason printed, where they cannot be told. */
static void default_contexts(eval_options *o, int64_t trained) {
    enum { RATIOS = 3 };
    if (trained < 2)
        cli_fail("%s: does not say its trained length; name the lengths with --contexts (contexts)", o->folder);
    else if (o->stride > trained)
        cli_fail("--stride: %lld is above the shortest context %lld (contexts)", (long long)o->stride, (long long)trained);
    else if (!(o->contexts = calloc(RATIOS, sizeof *o->contexts)))
        cli_fail("contexts: out of memory (options)");
    else
        for (; o->contexts_count < RATIOS; o->contexts_count++)
            o->contexts[o->contexts_count] = trained << o->contexts_count;
}

static int open_input(evaluation *e, eval_options *o) {
    gyre_error err = {0, ""};
    if (gyre_model_open(&e->model, o->folder, &err)) return cli_fail_error(&err);
    const gyre_model_config *config = gyre_model_config_of(e->model);
    if (!o->contexts) default_contexts(o, config->position.trained_length);
    if (!o->contexts) return CLI_FAILED;
    if (!o->ids && config->vocab != 256)
        return cli_fail("%s: its vocabulary of %lld is not the 256 bytes; name token ids with --ids (text)", o->folder,
                        (long long)config->vocab);
    /* Checked before any work, not after the first column. */
    const int64_t least = o->contexts[o->contexts_count - 1] + 1;
    const gyre_status status = o->ids ? gyre_text_open_ids(&e->text, o->ids, config->vocab, least, &err)
                                      : gyre_text_open(&e->text, o->texts, o->texts_count, GYRE_SPLIT_ALL, least, &err);
    return status ? cli_fail_error(&err) : 0;
}

/* -- measuring ------------------------------------------------------------------------------------------------------- */
static gyre_eval_options eval_options_at(const evaluation *e, int64_t context) {
    gyre_eval_options out = GYRE_EVAL_INIT;
    out.context = context;
    out.stride = e->options->stride;
    out.windows = e->options->windows;
    out.protocol = e->options->protocol;
    return out;
}

static gyre_passkey_options passkey_options_at(const evaluation *e, int64_t context) {
    gyre_passkey_options out = GYRE_PASSKEY_INIT;
    out.context = context;
    out.trials = e->options->passkey;
    return out;
}

/* Tokens that one method reads at a context; for the bar alone. */
static int64_t planned_tokens(const evaluation *e, int64_t context) {
    const gyre_eval_options o = eval_options_at(e, context);
    const int64_t stride = o.protocol == GYRE_TRUNCATE ? context : o.stride ? o.stride : context / 2;
    int64_t windows = (e->text.count - 1 - context) / stride + 1;
    if (o.windows && o.windows < windows) windows = o.windows;
    const int64_t keys = passkey_options_at(e, context).keys;
    return (windows + (e->options->passkey + keys - 1) / keys) * context;
}

/* What the encoding is, whether or not it reaches the context. */
static gyre_status describe(const gyre_encoding *encoding, int64_t context, cell *c) {
    const struct gyre_rope_config *rope = &gyre_encoding_config(encoding)->rope;
    const gyre_status status = gyre_encoding_parts(encoding, context, &c->parts);
    c->rotates = status != GYRE_EUNSUPPORTED; /* a temperature alone acts on queries and turns nothing */
    if (!c->rotates) return GYRE_OK;
    c->factor = rope->factor;
    c->window = rope->far == GYRE_FAR_AS_NEAR ? 0 : rope->window;
    c->far_factor = rope->far == GYRE_FAR_LEAKY || rope->far == GYRE_FAR_GROUPED ? rope->far_factor : 0;
    return status ? status : gyre_encoding_frequencies(encoding, context, NULL, &c->attention_factor);
}

static gyre_status figures(evaluation *e, const gyre_encoding *encoding, int64_t context, cell *c, gyre_error *err) {
    gyre_eval_options eval = eval_options_at(e, context);
    eval.progress = cli_progress_step;
    eval.progress_ctx = &e->progress;
    const gyre_status status = gyre_evaluate(e->model, encoding, &e->text, &eval, &c->figures, &e->exec, err);
    if (status || !e->options->passkey) return status;
    gyre_passkey_options passkey = passkey_options_at(e, context);
    passkey.progress = cli_progress_step;
    passkey.progress_ctx = &e->progress;
    return gyre_passkey(e->model, encoding, &e->text, &passkey, &c->passkey, &e->exec, err);
}

static gyre_status measure(evaluation *e, const eval_row *row, int64_t context, cell *c, gyre_error *err) {
    gyre_config base = *gyre_encoding_config(gyre_model_encoding(e->model));
    gyre_encoding *encoding = NULL;
    base.rope.length_policy = row->policy;
    gyre_status status =
        method_encoding(row->method, &base, base.trained_length, context, &e->options->betas, &encoding, err);
    if (!status) status = describe(encoding, context, c);
    if (!status) status = figures(e, encoding, context, c, err);
    gyre_encoding_free(encoding);
    if (status == GYRE_ERANGE) { /* a table that ends is an answer, not a failure */
        c->out_of_range = 1;
        c->note = *err;
        status = GYRE_OK;
    }
    e->planned += planned_tokens(e, context);
    cli_progress_reach(&e->progress, e->planned);
    return status;
}

/* A row for each method, or for each policy where it matters. */
static int make_rows(evaluation *e) {
    const eval_options *o = e->options;
    const gyre_config *base = gyre_encoding_config(gyre_model_encoding(e->model));
    const int64_t most = o->methods_count * POLICIES;
    e->rows = calloc((size_t)most, sizeof *e->rows);
    e->cells = calloc((size_t)(most * o->contexts_count), sizeof *e->cells);
    if (!e->rows || !e->cells) return cli_fail("results: out of memory (eval)");
    for (int64_t m = 0; m < o->methods_count; m++) {
        const int follows = method_follows_length(&o->methods[m], base);
        const int64_t several = follows ? o->policies_count : 0;
        for (int64_t p = 0; p < several || p == 0; p++)
            e->rows[e->rows_count++] =
                (eval_row){&o->methods[m], several ? o->policies[p] : base->rope.length_policy, follows};
    }
    return 0;
}

static int measure_all(evaluation *e) {
    const eval_options *o = e->options;
    gyre_error err = {0, ""};
    gyre_status status = GYRE_OK;
    int64_t all = 0;
    for (int64_t l = 0; l < o->contexts_count; l++)
        all += e->rows_count * planned_tokens(e, o->contexts[l]);
    cli_progress_begin(&e->progress, "eval", "tokens", all);
    for (int64_t i = 0; i < e->rows_count * o->contexts_count && !status; i++) {
        const eval_row *row = &e->rows[i / o->contexts_count];
        const int64_t context = o->contexts[i % o->contexts_count];
        cli_progress_label(&e->progress, "%s at %lld", row->method->label, (long long)context);
        status = measure(e, row, context, &e->cells[i], &err);
    }
    cli_progress_end(&e->progress);
    return status ? cli_fail_error(&err) : 0;
}

/* -- results --------------------------------------------------------------------------------------------------------- */
static const cell *cell_of(const evaluation *e, int64_t row, int64_t column) {
    return &e->cells[row * e->options->contexts_count + column];
}

static const char *scored_text(const eval_options *o) {
    switch (o->protocol) {
    case GYRE_TRUNCATE:
        return "every prediction";
    case GYRE_LAST:
        return "the last 200 predictions of a window, or half of it if that is fewer";
    default:
        return "the last stride predictions of a window";
    }
}

static json_t *number_or_null(int known, double value) {
    return known ? cli_json_number(value) : json_null();
}

static json_t *integer_or_null(int known, int64_t value) {
    return known ? json_integer(value) : json_null();
}

/* 1: the policies are worth telling: asked for, or none that a reader would expect. */
static int tells_policies(const evaluation *e) {
    int tells = e->options->policies_count > 0;
    for (int64_t i = 0; i < e->rows_count; i++)
        tells |= e->rows[i].follows && e->rows[i].policy != GYRE_LENGTH_DECLARED;
    return tells;
}

/* What tells two rows of one name apart. */
static void add_way(json_t *out, const evaluation *e, const eval_row *row, const cell *c) {
    const method *m = row->method;
    (void)json_object_set_new(out, "label", json_string(m->label));
    (void)json_object_set_new(out, "resonance", json_boolean(m->resonance));
    (void)json_object_set_new(out, "logn", json_boolean(m->logn));
    (void)json_object_set_new(out, "window", integer_or_null(c->window != 0, c->window));
    (void)json_object_set_new(out, "far_factor", number_or_null(c->far_factor != 0, c->far_factor));
    if (tells_policies(e))
        (void)json_object_set_new(out, "length_policy", row->follows ? json_string(policy_names[row->policy]) : json_null());
}

static json_t *json_of_cell(const evaluation *e, const eval_row *row, int64_t context, const cell *c) {
    const method *m = row->method;
    const int measured = !c->out_of_range, asked = measured && e->options->passkey;
    json_t *out = json_pack(
        "{s:s, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o}", "method", m->name, "factor",
        number_or_null(m->factor != 0, m->factor), "factor_used", number_or_null(c->rotates, c->factor), "context",
        (json_int_t)context, "perplexity", number_or_null(measured, exp(c->figures.nats)), "bits_per_token",
        number_or_null(measured, c->figures.nats / log(2)), "attention_factor",
        number_or_null(c->rotates, c->attention_factor), "kept", integer_or_null(c->rotates, c->parts.kept), "blended",
        integer_or_null(c->rotates, c->parts.blended), "divided", integer_or_null(c->rotates, c->parts.divided), "windows",
        (json_int_t)c->figures.windows, "scored", (json_int_t)c->figures.scored, "passkey",
        number_or_null(asked, asked ? (double)c->passkey.right / (double)c->passkey.trials : 0));
    if (out) add_way(out, e, row, c);
    if (out && c->out_of_range) (void)json_object_set_new(out, "error", json_string(c->note.text));
    return out;
}

static json_t *json_of_text(const evaluation *e) {
    const eval_options *o = e->options;
    json_t *paths = json_array();
    for (int64_t i = 0; i < o->texts_count; i++)
        (void)json_array_append_new(paths, json_string(o->texts[i]));
    if (o->ids) (void)json_array_append_new(paths, json_string(o->ids));
    return json_pack("{s:s, s:o, s:I, s:I, s:o}", "unit", o->ids ? "token" : "byte", "paths", paths, "files",
                     (json_int_t)e->text.files, "tokens", (json_int_t)e->text.count, "hash", cli_json_hash(e->text.hash));
}

static int print_json(const evaluation *e, FILE *file) {
    const eval_options *o = e->options;
    json_t *results = json_array();
    for (int64_t r = 0; r < e->rows_count; r++)
        for (int64_t l = 0; l < o->contexts_count; l++)
            (void)json_array_append_new(results, json_of_cell(e, &e->rows[r], o->contexts[l], cell_of(e, r, l)));
    const gyre_config *position = &gyre_model_config_of(e->model)->position;
    return cli_json_write(file,
                          json_pack("{s:s, s:s, s:I, s:I, s:{s:s, s:o, s:o, s:s}, s:o, s:o}", "model", o->folder, "kind",
                                    gyre_kind_name(position->kind), "trained_length", (json_int_t)position->trained_length,
                                    "parameters", (json_int_t)gyre_model_parameters(e->model), "protocol", "name",
                                    protocol_names[o->protocol], "stride", integer_or_null(o->stride != 0, o->stride),
                                    "windows", integer_or_null(o->windows != 0, o->windows), "scored", scored_text(o),
                                    "text", json_of_text(e), "results", results));
}

static void print_header(const evaluation *e, FILE *file) {
    const eval_options *o = e->options;
    const gyre_config *position = &gyre_model_config_of(e->model)->position;
    char weights[16], trained[64] = "trained length unknown", stride[32] = "L/2", windows[48] = "all windows";
    if (position->trained_length)
        snprintf(trained, sizeof trained, "trained on %lld tokens", (long long)position->trained_length);
    if (o->protocol == GYRE_TRUNCATE) snprintf(stride, sizeof stride, "L");
    if (o->stride) snprintf(stride, sizeof stride, "%lld", (long long)o->stride);
    if (o->windows) snprintf(windows, sizeof windows, "at most %lld windows", (long long)o->windows);
    fprintf(file, "model     %s: %s, %s weights, %s\n", o->folder, gyre_kind_name(position->kind),
            cli_amount((double)gyre_model_parameters(e->model), weights), trained);
    fprintf(file, "text      %lld %s in %lld file%s, fnv1a64:%016llx\n", (long long)e->text.count,
            o->ids ? "tokens" : "bytes", (long long)e->text.files, e->text.files == 1 ? "" : "s",
            (unsigned long long)e->text.hash);
    fprintf(file, "protocol  %s: windows of L tokens, stride %s, %s; scored: %s\n\n", protocol_names[o->protocol], stride,
            windows, scored_text(o));
}

/* The columns of the table come in groups: a figure at every context, then the pairs. */
enum { PERPLEXITY, BITS, PASSKEY, FIGURES, PAIRS = 3 };

static const char *const group_names[FIGURES] = {"perplexity", "bits per byte", "passkeys found"};

typedef struct layout {
    int64_t policies, contexts, figures, pairs, columns; /* figures: groups of them; policies, pairs: columns of them */
    gyre_column *column;
    gyre_cell *cells;
    char (*heads)[24]; /* [contexts] */
    char pairs_group[40];
} layout;

static void lay_out_columns(const evaluation *e, layout *l) {
    static const char *const pair_heads[PAIRS] = {"kept", "blended", "divided"};
    const eval_options *o = e->options;
    gyre_column *column = l->column;
    *column++ = (gyre_column){.head = "method"};
    if (l->policies) *column++ = (gyre_column){.head = "length", .align = GYRE_ALIGN_LEFT};
    for (int64_t f = 0; f < l->figures; f++)
        for (int64_t i = 0; i < l->contexts; i++) {
            snprintf(l->heads[i], sizeof l->heads[i], "%lld", (long long)o->contexts[i]);
            *column++ = (gyre_column){.head = l->heads[i],
                                      .group = f == BITS && o->ids ? "bits per token" : group_names[f],
                                      .unit = f == PASSKEY ? "%" : NULL,
                                      .decimals = f == PASSKEY ? 0 : 3,
                                      .best = f == PASSKEY ? GYRE_BEST_HIGHEST : GYRE_BEST_LOWEST};
        }
    snprintf(l->pairs_group, sizeof l->pairs_group, "pairs at %lld", (long long)o->contexts[l->contexts - 1]);
    for (int64_t i = 0; l->pairs && i < PAIRS; i++)
        *column++ = (gyre_column){.head = pair_heads[i], .group = l->pairs_group};
}

static gyre_cell figure_cell(const cell *c, int64_t figure) {
    if (c->out_of_range) return gyre_cell_missing();
    switch (figure) {
    case PERPLEXITY:
        return gyre_cell_number(exp(c->figures.nats));
    case BITS:
        return gyre_cell_number(c->figures.nats / log(2));
    default:
        return gyre_cell_number(100 * (double)c->passkey.right / (double)c->passkey.trials);
    }
}

static void fill_row(const evaluation *e, const layout *l, int64_t row) {
    gyre_cell *out = &l->cells[row * l->columns];
    const eval_row *r = &e->rows[row];
    *out++ = gyre_cell_text(r->method->label);
    if (l->policies) *out++ = gyre_cell_text(r->follows ? policy_names[r->policy] : "any");
    for (int64_t f = 0; f < l->figures; f++)
        for (int64_t i = 0; i < l->contexts; i++)
            *out++ = figure_cell(cell_of(e, row, i), f);
    const gyre_parts parts = cell_of(e, row, l->contexts - 1)->parts;
    const int64_t pairs[PAIRS] = {parts.kept, parts.blended, parts.divided};
    for (int64_t i = 0; l->pairs && i < PAIRS; i++)
        *out++ = gyre_cell_number((double)pairs[i]);
}

static int print_table(const evaluation *e, layout *l, FILE *file) {
    gyre_error err = {0, ""};
    l->column = calloc((size_t)l->columns, sizeof *l->column);
    l->cells = calloc((size_t)(l->columns * e->rows_count), sizeof *l->cells);
    l->heads = calloc((size_t)l->contexts, sizeof *l->heads);
    if (!l->column || !l->cells || !l->heads) return cli_fail("table: out of memory (eval)");
    lay_out_columns(e, l);
    for (int64_t r = 0; r < e->rows_count; r++)
        fill_row(e, l, r);
    gyre_report_table table = GYRE_REPORT_TABLE_INIT;
    table.columns = l->column;
    table.columns_count = l->columns;
    table.cells = l->cells;
    table.rows = e->rows_count;
    for (int64_t i = 0; i < table.rows * l->contexts; i++)
        if (e->cells[i].out_of_range) table.note = "-: the encoding ends before that context does";
    return gyre_report_table_print(&table, file, cli_styled(file), &err) ? cli_fail_error(&err) : 0;
}

static int print_report(const evaluation *e, FILE *file) {
    const eval_options *o = e->options;
    layout l = {.policies = tells_policies(e),
                .contexts = o->contexts_count,
                .figures = o->passkey ? FIGURES : PASSKEY,
                .pairs = e->cells[0].rotates ? PAIRS : 0};
    l.columns = 1 + l.policies + l.figures * l.contexts + l.pairs;
    print_header(e, file);
    const int status = print_table(e, &l, file);
    free(l.column);
    free(l.cells);
    free(l.heads);
    return status;
}

/* What the table cannot say in a dash. */
static void warn_of_ends(const evaluation *e) {
    const eval_options *o = e->options;
    for (int64_t r = 0; r < e->rows_count; r++)
        for (int64_t l = 0; l < o->contexts_count; l++)
            if (cell_of(e, r, l)->out_of_range)
                cli_warn("%s at %lld: %s", e->rows[r].method->label, (long long)o->contexts[l], cell_of(e, r, l)->note.text);
}

/* -- the subcommand -------------------------------------------------------------------------------------------------- */
static int evaluate_and_print(evaluation *e, const cli_output *output) {
    const eval_options *o = e->options;
    int status = make_rows(e);
    if (!status) status = cli_pool_open(&o->common, &e->pool, &e->exec);
    if (!status) status = measure_all(e);
    if (status) return status;
    warn_of_ends(e);
    return o->common.json ? print_json(e, output->file) : print_report(e, output->file);
}

int cmd_eval(int argc, char **argv) {
    eval_options options;
    read_options(argc, argv, &options);
    evaluation e = {.options = &options};
    int status = open_input(&e, &options);
    if (!status) {
        cli_output output;
        status = cli_output_open(&output, options.common.output);
        if (!status) status = cli_output_close(&output, evaluate_and_print(&e, &output));
    }
    gyre_pool_free(e.pool);
    gyre_text_free(&e.text);
    gyre_model_free(e.model);
    free(e.rows);
    free(e.cells);
    free(options.texts);
    free(options.contexts);
    free(options.methods);
    return status;
}
