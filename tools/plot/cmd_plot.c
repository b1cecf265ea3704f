/* cmd_plot.c: gyre plot: figures of position encodings, and the numbers in them. */
#include "tools/common/model_path.h"
#include "tools/plot/plot.h"
#include "tools/subcommands.h"
#include "util/absent_path.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_POINTS = 4096, NAMES = 256, NUMBER = 64 };

#define LEAST_BASE 1.001
#define MOST_BASE  1e18
enum { KINDS = 16 };
static const plot_kind *const kinds[KINDS] = {&plot_methods, &plot_wavelengths, &plot_ramp,       &plot_clock,
                                              &plot_helix,   &plot_decay,       &plot_rows,       &plot_digits,
                                              &plot_shift,   &plot_bias,        &plot_perplexity, &plot_passkey,
                                              &plot_copying, &plot_accuracy,    &plot_attention,  &plot_hands};

static const char documentation[] =
    "Draws a figure of position encodings, as SVG, PNG or PDF, and prints the numbers in it."
    "\vMODEL is a config.json, a folder with one, or a GGUF file; or " MODEL_PATH_HELP
    "  Without MODEL the options describe a rotation.\n\n"
    "KIND is one of:\n"
    "  methods      the angle of each pair over each distance under each method, and how far past training\n"
    "  wavelengths  tokens that each pair takes for a turn, against the lengths; the ramp shaded\n"
    "  ramp         what each method divides the frequency of each pair by\n"
    "  clock        pairs as hands of a clock: the angle between query and key at a distance\n"
    "  hands        a wall clock with three hands, read past the 12 hours that it shows, under linear and NTK\n"
    "  helix        e^(i m theta) in space, the pair or the position as third axis, and its projections\n"
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
static void read_bases(const char *option, const char *text, void *at) {
    plot_options *o = at;
    o->bases_count = 0;
    while (*text) {
        char one[NUMBER];
        const size_t length = strcspn(text, ",");
        if (length >= sizeof one) cli_usage_error("%s: a number of more than %d characters", option, NUMBER - 1);
        snprintf(one, sizeof one, "%.*s", (int)length, text);
        if (o->bases_count == PLOT_BASES) cli_usage_error("%s: at most %d", option, PLOT_BASES);
        const double base = cli_number(option, one, LEAST_BASE, MOST_BASE);
        for (int i = 0; i < o->bases_count; i++)
            if (o->bases[i] == base) cli_usage_error("%s: %s is named twice", option, one);
        o->bases[o->bases_count++] = base;
        text += length + (text[length] == ',');
    }
    if (!o->bases_count) cli_usage_error("%s: empty", option);
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

static int read_argument(void *options, char *text) {
    plot_options *o = options;
    if (!o->kind)
        o->kind = find_kind(text);
    else if (o->files_count == PLOT_FILES)
        cli_usage_error("%s: more than %d files", text, PLOT_FILES);
    else
        o->files[o->files_count++] = text;
    if (o->files_count) (void)model_path_find(text); /* notes what is read, for the parser's guard */
    return 0;
}

static void read_compare(const char *option, const char *text, void *at) {
    (void)option;
    *(const char **)at = text;
    note_models(text);
}

#define CLI_STRUCT plot_options
static const cli_option rows[] = {
    {"compare", "A,B", "Draw two models, or two methods, side by side; bias and table: models", 1,
     CLI_OTHER(const char *, compare, read_compare), .of = PLOT_OPTION_COMPARE},
    {"csv", NULL, "Print the numbers of the figure as CSV; --json prints them as JSON", 1, CLI_FLAG(csv), .excludes = "json",
     .why = "prints the numbers in place of --json; give one of them"},
    ROW_METHODS(method, "Methods to draw: " METHOD_NAMES METHOD_NUMBERS_HELP ", each with " METHOD_MODIFIERS,
                CLI_GROUP_OF(2, PLOT_OPTION_METHODS)),
    ROW_METHOD(method, "NAME", "The same for one method", CLI_GROUP_OF(2, PLOT_OPTION_METHODS)),
    ROW_TO(stretch.to, CLI_GROUP_OF(2, PLOT_OPTION_TO)),
    {"factor", "X", "The same as --to with X times the trained length (default: 4)", 2, CLI_NUMBER(factor, 1, 1e6),
     .of = PLOT_OPTION_FACTOR, .excludes = "to", .why = "--to says the length; give one of them"},
    ROW_TRAINED(stretch.trained, CLI_GROUP_OF(2, PLOT_OPTION_TRAINED)),
    {"base", "X", "Base of the frequencies (default: as the model says, else 10000)", 2,
     CLI_NUMBER(base, LEAST_BASE, MOST_BASE), .of = PLOT_OPTION_BASE},
    {"bases", "LIST", "decay and helix: bases to compare (default: 1e4,5e5,1e6)", 2, CLI_OTHER_OF_ALL(read_bases),
     .of = PLOT_OPTION_BASES},
    {"head-dim", "N", "Channels of a head, without a model (default: 128)", 2, CLI_EVEN(head_dim, 2, 4096),
     .of = PLOT_OPTION_HEAD_DIM},
    ROW_BETA_FAST(method.betas.fast, "32", CLI_GROUP_OF(2, PLOT_OPTION_BETAS)),
    ROW_BETA_SLOW(method.betas.slow, "1", CLI_GROUP_OF(2, PLOT_OPTION_BETAS)),
    {"axis", "pair|position",
     "helix: the third axis: all pairs at one position, or some pairs at the positions to --position (default: pair)", 3,
     CLI_CHOICE(plot_axis, axis, PLOT_AXIS_PAIR), .of = PLOT_OPTION_AXIS},
    {"position", "N", "clock: the distance from query to key; hands, helix and shift: the position", 3,
     CLI_INTEGER(position, 0, CLI_MAX_TOKENS), .of = PLOT_OPTION_POSITION},
    {"points", "N", "Columns of a map, points of a line", 3, CLI_INTEGER(points, 8, MAX_POINTS), .of = PLOT_OPTION_POINTS},
    {"layer", "N", "attention and bias: the layer, counted from 0 (default: the last; of bias the first)", 3,
     CLI_INTEGER(layer, 0, 1 << 20), .of = PLOT_OPTION_LAYER},
    {"head", "N", "attention and bias: the head, counted from 0 (default: all, or the first)", 3,
     CLI_INTEGER(head, 0, 1 << 20), .of = PLOT_OPTION_HEAD},
    {"tokens", "N", "attention and bias: tokens on both axes; table and digits: positions", 3, CLI_INTEGER(tokens, 2, 4096),
     .of = PLOT_OPTION_TOKENS},
    ROW_AS(reading.profile, CLI_GROUP_OF(4, PLOT_OPTION_AS)),
    ROW_LAYER_TYPE(reading.layer_type, "The layers to draw, of a model whose layers differ: full_attention, vision",
                   CLI_GROUP_OF(4, PLOT_OPTION_LAYER_TYPE)),
    ROW_TEXT(model, CLI_GROUP_OF(4, PLOT_OPTION_TEXT)),
    ROW_IDS(model, CLI_GROUP_OF(4, PLOT_OPTION_TEXT)),
    ROW_TOKENIZER(model.tokenizer, CLI_GROUP_OF(4, PLOT_OPTION_TEXT)),
    {0}};

/* An option or a file that the kind would not read is an error. */
static void check_given(const plot_options *o) {
    const cli_option *other = cli_given_of(&o->common, ~o->kind->options);
    if (other) cli_usage_error("--%s: %s does not take it", other->name, o->kind->name);
    if (o->files_count > o->kind->files)
        cli_usage_error("%s: %s takes %s", o->files[o->kind->files], o->kind->name,
                        !o->kind->files                          ? "no model"
                        : o->kind->options & PLOT_OPTION_COMPARE ? "one model; --compare A,B draws two"
                                                                 : "one model");
}

static void read_options(int argc, char **argv, plot_options *o) {
    static const cli_command command = {rows, CLI_ALL, "KIND [MODEL|FILE...]", documentation, read_argument, 0, NULL};
    *o = (plot_options){.reading = {.profile = GYRE_PROFILE_DEFAULT}, .position = -1, .layer = -1, .head = -1};
    model_options_init(&o->model, argc);
    method_options_init(&o->method);
    cli_parse(&command, argc, argv, o);
    if (!o->kind) cli_usage_error("KIND: missing; gyre plot --help lists them");
    check_given(o);
    if (o->method.betas.fast < o->method.betas.slow)
        cli_usage_error("--beta-fast: %g is below --beta-slow %g", o->method.betas.fast, o->method.betas.slow);
}

/* -- the target of the result -- */
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
    if (!path && !o->common.force && !gyre_is_absent(name))
        return cli_fail("%s: exists; --force replaces it, -o FILE writes another (plot)", name);
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
    return o->kind->compute(w, &err) ? cli_fail_error(&err) : 0;
}

int cmd_plot(int argc, char **argv) {
    plot_options o;
    gyre_pool *pool = NULL;
    read_options(argc, argv, &o);
    if (o.common.output) (void)form_of(o.common.output);
    plot_work *w = cli_alloc(1, sizeof *w);
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
