/* cmd_plot.c: gyre plot: figures of position encodings, and the numbers in them. */
#include "tools/cli/cli_guard.h"
#include "tools/common/model_path.h"
#include "tools/plot/plot.h"
#include "tools/subcommands.h"
#include "util/absent_path.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_COMPARE = CLI_FIRST_KEY,
    KEY_CSV,
    KEY_BASE,
    KEY_BASES,
    KEY_HEAD_DIM,
    KEY_FACTOR,
    KEY_POSITION,
    KEY_POINTS,
    KEY_LAYER,
    KEY_HEAD,
    KEY_TOKENS,
    MAX_POINTS = 4096,
    NAMES = 256,
    NUMBER = 64
};

static const double LEAST_BASE = 1.001, MOST_BASE = 1e18;
enum { KINDS = 15 };
static const plot_kind *const kinds[KINDS] = {&plot_methods, &plot_wavelengths, &plot_ramp,       &plot_clock,
                                              &plot_helix,   &plot_decay,       &plot_rows,       &plot_digits,
                                              &plot_shift,   &plot_bias,        &plot_perplexity, &plot_passkey,
                                              &plot_copying, &plot_accuracy,    &plot_attention};

static const struct argp_option option_table[] = {
    {"compare", KEY_COMPARE, "A,B", 0, "Draw two models, or two methods, side by side; bias and table: models", 1},
    {"csv", KEY_CSV, NULL, 0, "Print the numbers of the figure as CSV; --json prints them as JSON", 1},
    OPTION_METHODS("Methods to draw: " METHOD_NAMES METHOD_NUMBERS_HELP ", each with " METHOD_MODIFIERS, 2),
    OPTION_METHOD("NAME", "The same for one method", 2),
    OPTION_TO(2),
    {"factor", KEY_FACTOR, "X", 0, "The same as --to with X times the trained length (default: 4)", 2},
    OPTION_TRAINED(2),
    {"base", KEY_BASE, "X", 0, "Base of the frequencies (default: as the model says, else 10000)", 2},
    {"bases", KEY_BASES, "LIST", 0, "decay and helix: bases to compare (default: 1e4,5e5,1e6)", 2},
    {"head-dim", KEY_HEAD_DIM, "N", 0, "Channels of a head, without a model (default: 128)", 2},
    OPTION_BETA_FAST("32", 2),
    OPTION_BETA_SLOW("1", 2),
    {"position", KEY_POSITION, "N", 0, "clock, helix and shift: the position shown", 3},
    {"points", KEY_POINTS, "N", 0, "Columns of a map, points of a line", 3},
    {"layer", KEY_LAYER, "N", 0, "attention and bias: the layer, counted from 0 (default: the last; of bias the first)", 3},
    {"head", KEY_HEAD, "N", 0, "attention and bias: the head, counted from 0 (default: all, or the first)", 3},
    {"tokens", KEY_TOKENS, "N", 0, "attention and bias: tokens on both axes; table and digits: positions", 3},
    OPTION_AS(4),
    OPTION_LAYER_TYPE("The layers to draw, of a model whose layers differ: full_attention, vision", 4),
    OPTION_TEXT(4),
    OPTION_IDS(4),
    OPTION_TOKENIZER(4),
    {0}};

static const char documentation[] =
    "Draws a figure of position encodings, as SVG, PNG or PDF, and prints the numbers in it."
    "\vMODEL is a config.json, a folder with one, or a GGUF file; or " MODEL_PATH_HELP
    "  Without MODEL the options describe a rotation.\n\n"
    "KIND is one of:\n"
    "  methods      the angle of each pair at each position under each method, unseen angles marked\n"
    "  wavelengths  tokens that each pair takes for a turn, against the lengths; the ramp shaded\n"
    "  ramp         what each method divides the frequency of each pair by\n"
    "  clock        pairs as hands of a clock, and what each method does to them\n"
    "  helix        e^(i m theta) in space, the pair as third axis, and its projections\n"
    "  decay        mean and bound of the rotated inner product against distance\n"
    "  table        tables of positions: the sinusoid, and what MODEL learned\n"
    "  digits       positions as one-hot, as binary digits, and as a sinusoid\n"
    "  shift        PE(p + k) = M_k PE(p) on numbers, k from --position\n"
    "  bias         numbers added to scores: ALiBi, Sandwich, KERPLE, FIRE, T5, DeBERTa\n"
    "  attention    weights of a layer of MODEL on --text\n"
    "  perplexity   FILE...: what gyre eval wrote with --json or --journal, or gyre lab --json\n"
    "  passkey      FILE...: what gyre passkey wrote, gyre eval --passkey, or gyre lab --json\n"
    "  copying      FILE...: what gyre lab --json wrote\n"
    "  accuracy     error of cos and sin as each engine computes them\n\n"
    "Without -o the figure goes to standard output, or to KIND.svg here if that is a terminal.  The name of FILE ends in "
    ".svg, .png or .pdf; in .csv or .json for the numbers.\n\n"
    "Examples:\n"
    "  gyre plot methods -o methods.svg\n"
    "  gyre plot wavelengths config.json --to 128k -o wavelengths.pdf\n"
    "  gyre plot decay --csv\n"
    "  gyre plot methods --compare linear,yarn -o two.png\n"
    "  gyre plot attention rope --text /usr/share/common-licenses/GPL-3 --layer 1\n";

/* -- options -- */
/* Options that not every kind takes. */
static const struct {
    int key;
    const char *name;
    long bit;
} some_options[] = {{KEY_COMPARE, "--compare", PLOT_OPTION_COMPARE},
                    {METHOD_KEY_LIST, "--methods", PLOT_OPTION_METHODS},
                    {METHOD_KEY_ONE, "--method", PLOT_OPTION_METHODS},
                    {STRETCH_KEY_TO, "--to", PLOT_OPTION_TO},
                    {KEY_FACTOR, "--factor", PLOT_OPTION_FACTOR},
                    {STRETCH_KEY_TRAINED, "--trained", PLOT_OPTION_TRAINED},
                    {KEY_BASE, "--base", PLOT_OPTION_BASE},
                    {KEY_BASES, "--bases", PLOT_OPTION_BASES},
                    {KEY_HEAD_DIM, "--head-dim", PLOT_OPTION_HEAD_DIM},
                    {METHOD_KEY_BETA_FAST, "--beta-fast", PLOT_OPTION_BETAS},
                    {METHOD_KEY_BETA_SLOW, "--beta-slow", PLOT_OPTION_BETAS},
                    {KEY_POSITION, "--position", PLOT_OPTION_POSITION},
                    {KEY_POINTS, "--points", PLOT_OPTION_POINTS},
                    {KEY_LAYER, "--layer", PLOT_OPTION_LAYER},
                    {KEY_HEAD, "--head", PLOT_OPTION_HEAD},
                    {KEY_TOKENS, "--tokens", PLOT_OPTION_TOKENS},
                    {READING_KEY_AS, "--as", PLOT_OPTION_AS},
                    {READING_KEY_LAYER_TYPE, "--layer-type", PLOT_OPTION_LAYER_TYPE},
                    {MODEL_KEY_TEXT, "--text", PLOT_OPTION_TEXT},
                    {MODEL_KEY_IDS, "--ids", PLOT_OPTION_TEXT},
                    {MODEL_KEY_TOKENIZER, "--tokenizer", PLOT_OPTION_TEXT}};
enum { SOME_OPTIONS = sizeof some_options / sizeof *some_options };

static void note_given(plot_options *o, int key) {
    for (int i = 0; i < SOME_OPTIONS; i++)
        if (some_options[i].key == key) o->given |= 1L << i;
}

/* An option or a file that the kind would not look at is an error. */
static void check_given(const plot_options *o) {
    for (int i = 0; i < SOME_OPTIONS; i++)
        if (o->given & 1L << i && !(o->kind->options & some_options[i].bit))
            cli_usage_error("%s: %s does not take it", some_options[i].name, o->kind->name);
    if (o->files_count > o->kind->files)
        cli_usage_error("%s: %s takes %s", o->files[o->kind->files], o->kind->name,
                        !o->kind->files                          ? "no model"
                        : o->kind->options & PLOT_OPTION_COMPARE ? "one model; --compare A,B draws two"
                                                                 : "one model");
}

static void parse_bases(plot_options *o, const char *text) {
    o->bases_count = 0;
    while (*text) {
        char one[NUMBER];
        const size_t length = strcspn(text, ",");
        if (length >= sizeof one) cli_usage_error("--bases: a number of more than %d characters", NUMBER - 1);
        snprintf(one, sizeof one, "%.*s", (int)length, text);
        if (o->bases_count == PLOT_BASES) cli_usage_error("--bases: at most %d", PLOT_BASES);
        const double base = cli_number("--bases", one, LEAST_BASE, MOST_BASE);
        for (int i = 0; i < o->bases_count; i++)
            if (o->bases[i] == base) cli_usage_error("--bases: %s is named twice", one);
        o->bases[o->bases_count++] = base;
        text += length + (text[length] == ',');
    }
    if (!o->bases_count) cli_usage_error("--bases: empty");
}

static const plot_kind *find_kind(const char *text) {
    const char *names[KINDS];
    for (int i = 0; i < KINDS; i++)
        names[i] = kinds[i]->name;
    return kinds[cli_choice("KIND", text, names, KINDS)];
}

/* Notes the models of a list A,B as read; names of methods are no files. */
static void note_models(const char *list) {
    static char names[2][4096];
    const char *second = strchr(list, ',');
    snprintf(names[0], sizeof names[0], "%.*s", second ? (int)(second - list) : (int)strlen(list), list);
    snprintf(names[1], sizeof names[1], "%s", second ? second + 1 : "");
    for (int i = 0; i < 2; i++)
        if (*names[i]) (void)model_path_find(names[i]);
}

static error_t parse_argument(plot_options *o, char *text) {
    if (!o->kind)
        o->kind = find_kind(text);
    else if (o->files_count == PLOT_FILES)
        cli_usage_error("%s: more than %d files", text, PLOT_FILES);
    else
        o->files[o->files_count++] = text;
    /* The parser's guard keeps what is read from being written over; a model's name is looked up for it. */
    if (o->files_count && access(text, F_OK) == 0)
        cli_guard_read(text);
    else if (o->files_count)
        (void)model_path_find(text);
    return 0;
}

static error_t parse_shared(plot_options *o, int key, char *text) {
    error_t code = stretch_option(&o->stretch, key, text);
    if (code) code = method_option(&o->method, key, text);
    if (code) code = reading_option(&o->reading, key, text);
    return code ? model_option(&o->model, key, text) : 0;
}

/* Where, and how fine. */
static error_t parse_count(plot_options *o, int key, char *text) {
    switch (key) {
    case KEY_POSITION:
        o->position = cli_integer("--position", text, 0, CLI_MAX_TOKENS);
        return 0;
    case KEY_POINTS:
        o->points = cli_integer("--points", text, 8, MAX_POINTS);
        return 0;
    case KEY_LAYER:
        o->layer = cli_integer("--layer", text, 0, 1 << 20);
        return 0;
    case KEY_HEAD:
        o->head = cli_integer("--head", text, 0, 1 << 20);
        return 0;
    case KEY_TOKENS:
        o->tokens = cli_integer("--tokens", text, 2, 4096);
        return 0;
    default:
        return parse_shared(o, key, text);
    }
}

/* A rotation without a model. */
static error_t parse_rotation(plot_options *o, int key, char *text) {
    switch (key) {
    case KEY_BASE:
        o->base = cli_number("--base", text, LEAST_BASE, MOST_BASE);
        return 0;
    case KEY_BASES:
        parse_bases(o, text);
        return 0;
    case KEY_HEAD_DIM:
        o->head_dim = cli_even_integer("--head-dim", text, 2, 4096);
        return 0;
    case KEY_FACTOR:
        o->factor = cli_number("--factor", text, 1, 1e6);
        return 0;
    default:
        return parse_count(o, key, text);
    }
}

static error_t parse_option(int key, char *text, struct argp_state *state) {
    plot_options *o = state->input;
    note_given(o, key);
    switch (key) {
    case KEY_COMPARE:
        o->compare = text;
        note_models(text);
        return 0;
    case KEY_CSV:
        o->csv = 1;
        return 0;
    case ARGP_KEY_ARG:
        return parse_argument(o, text);
    default:
        return parse_rotation(o, key, text);
    }
}

static void read_options(int argc, char **argv, plot_options *o) {
    static const struct argp argp = {option_table, parse_option, "KIND [MODEL|FILE...]", documentation, NULL, NULL, NULL};
    *o = (plot_options){.reading = {.profile = GYRE_PROFILE_DEFAULT}, .position = -1, .layer = -1, .head = -1};
    model_options_init(&o->model, argc);
    method_options_init(&o->method);
    cli_parse(&argp, CLI_THREADS | CLI_JSON | CLI_OUTPUT, argc, argv, &o->common);
    if (!o->kind) cli_usage_error("KIND: missing; gyre plot --help lists them");
    check_given(o);
    if (o->common.json && o->csv) cli_usage_error("--csv: prints the numbers in place of --json; give one of them");
    if (o->factor > 0 && o->stretch.to) cli_usage_error("--factor: --to says the length; give one of them");
    if (o->method.betas.fast < o->method.betas.slow)
        cli_usage_error("--beta-fast: %g is below --beta-slow %g", o->method.betas.fast, o->method.betas.slow);
}

/* -- where the result goes -- */
typedef enum plot_form { FORM_SVG, FORM_PNG, FORM_PDF, FORM_JSON, FORM_CSV } plot_form;
enum { FORMS = 5 };
static const char *const form_names[FORMS] = {"svg", "png", "pdf", "json", "csv"};

static plot_form form_of(const char *path) {
    const char *dot = strrchr(path, '.');
    for (int i = 0; dot && i < FORMS; i++)
        if (strcmp(dot + 1, form_names[i]) == 0) return (plot_form)i;
    /* A device has no ending, as /dev/stdout. */
    if (strncmp(path, "/dev/", 5) == 0) return FORM_SVG;
    cli_usage_error("--output: the name ends in .svg, .png or .pdf, or in .csv or .json for the numbers, not as %s", path);
}

static int draw(const plot_work *w, plot_form form, FILE *file) {
    plot_script s;
    const int fits = plot_runs_fit(&w->table);
    if (fits) return fits;
    if (!plot_script_begin(&s)) return cli_fail("figure: out of memory (plot)");
    w->options->kind->draw(w, &s);
    fputs("unset multiplot\n", s.file);
    if (fclose(s.file)) return cli_fail("figure: %s (plot)", strerror(errno));
    const int status = plot_script_write(&s, w->table.title, (gyre_report_format)form, file);
    free(s.text);
    return status;
}

static int print(const plot_work *w, plot_form form, FILE *file) {
    if (form == FORM_JSON) return plot_table_json(&w->table, w->options->kind->name, file);
    return form == FORM_CSV ? plot_table_csv(&w->table, file) : draw(w, form, file);
}

static int write_to(const plot_work *w, plot_form form, const char *path) {
    cli_output output;
    const int picture = form != FORM_JSON && form != FORM_CSV;
    const int status = (picture ? cli_output_open_raw : cli_output_open)(&output, path);
    return status ? status : cli_output_close(&output, print(w, form, output.file));
}

/* --json and --csv print the numbers; with -o the figure is drawn as well. */
static int write_results(const plot_work *w) {
    const plot_options *o = w->options;
    const char *path = o->common.output;
    char name[NAMES];
    const int prints = o->common.json || o->csv;
    int status = prints ? write_to(w, o->common.json ? FORM_JSON : FORM_CSV, NULL) : 0;
    if (status || (prints && !path)) return status;
    if (!path && !isatty(STDOUT_FILENO)) return write_to(w, FORM_SVG, NULL);
    if (!path) snprintf(name, sizeof name, "%s.svg", o->kind->name);
    if (!path && !gyre_is_absent(name))
        return cli_fail("%s: it is there already; -o %s replaces it, -o FILE writes another (plot)", name, name);
    status = write_to(w, path ? form_of(path) : FORM_SVG, path ? path : name);
    if (!status && !path) fprintf(stderr, "gyre: the figure is in %s\n", name);
    return status;
}

/* -- the subcommand -- */
static int compute(plot_work *w) {
    const plot_options *o = w->options;
    gyre_error err = {0, ""};
    const int reads =
        o->kind->takes == PLOT_TAKES_SUBJECT || (o->kind->takes == PLOT_TAKES_MODEL && (o->files_count || o->compare));
    int status = reads ? plot_subjects_read(o, w->subjects, &w->subjects_count) : 0;
    if (status) return status;
    gyre_status computed = o->kind->compute(w, &err);
    if (!computed && w->table.status) computed = gyre_fail(&err, GYRE_ENOMEM, "numbers: out of memory (plot)");
    return computed ? cli_fail_error(&err) : 0;
}

int cmd_plot(int argc, char **argv) {
    plot_options o;
    gyre_pool *pool = NULL;
    read_options(argc, argv, &o);
    if (o.common.output) (void)form_of(o.common.output);
    plot_work *w = calloc(1, sizeof *w);
    if (!w) return cli_fail("plot: out of memory (plot)");
    w->options = &o;
    int status = cli_pool_open(&o.common, &pool, &o.exec);
    if (!status) status = compute(w);
    if (!status) status = write_results(w);
    plot_table_free(&w->table);
    plot_subjects_free(w->subjects, w->subjects_count);
    free(w);
    gyre_pool_free(pool);
    method_options_free(&o.method);
    model_options_free(&o.model);
    return status;
}
