/* plot.h: gyre plot: figures of position encodings.
 *
 * A kind of figure is two functions: one computes a table of numbers with named columns, the other makes a gnuplot script
 * from that table and from nothing else.  --json and --csv print the table, so figure and numbers cannot disagree. */
#ifndef GYRE_TOOLS_PLOT_H
#define GYRE_TOOLS_PLOT_H
#include "gyre/gyre_reading.h"
#include "report/report.h"
#include "tools/cli/cli.h"
#include "tools/common/methods.h"
#include "tools/options/method_options.h"
#include "tools/options/model_options.h"
#include "tools/options/reading_options.h"
#include "tools/options/stretch_options.h"

enum {
    PLOT_LABEL = 96,
    PLOT_LOOK = 96,
    PLOT_COLUMNS = 10,
    PLOT_SUBJECTS = 2,
    PLOT_CASES = 12,
    PLOT_FILES = 16,
    PLOT_BASES = 6,
    PLOT_ENDS = 32
};

/* -- the table: plot_table.c -- */
typedef struct plot_column {
    const char *name;
    const char *unit; /* NULL: a text */
} plot_column;

/* Rows of numbers.  A cell of a text column is the index of a label. */
typedef struct plot_table {
    char title[256];
    const plot_column *columns; /* [columns_count] */
    int columns_count;
    double *cells; /* [rows][columns_count] */
    int64_t rows;
    char (*labels)[PLOT_LABEL];
    int labels_count;
} plot_table;

/* Sets the columns, which are static; the last one has a NULL name. */
void plot_table_columns(plot_table *t, const plot_column *columns);
void plot_table_free(plot_table *t);
/* Adds a row of columns_count cells. */
void plot_table_add(plot_table *t, const double *cells);
/* out = the index of a label, which is added if it is new; 0 after a failure. */
double plot_table_label(plot_table *t, const char *text);
const char *plot_table_text(const plot_table *t, int64_t row, int column);
double plot_table_number(const plot_table *t, int64_t row, int column);
/* out = one past the last row from `first` on whose cell in the column equals that of `first`. */
int64_t plot_table_group_end(const plot_table *t, int64_t first, int column);
/* out = the number of such groups in the whole table. */
int plot_table_groups(const plot_table *t, int column);
/* The groups of a column, one by one: begin with all zeros.  out = 0 after the last. */
typedef struct plot_group {
    int64_t first, end;
    int index, begun;
    const char *name; /* of a text column; NULL = of numbers */
} plot_group;
int plot_group_next(const plot_table *t, int column, plot_group *g);
int plot_table_json(const plot_table *t, const char *kind, FILE *file);
int plot_table_csv(const plot_table *t, FILE *file);

/* -- what is drawn -- */
/* A model, or a rotation described by options. */
typedef struct plot_subject {
    char label[PLOT_LABEL]; /* "models/rope"; "" = by options */
    const char *path;       /* NULL = by options */
    gyre_reading *reading;  /* owned; NULL = by options */
    const char *group;      /* name of the layers shown: "encoder"; NULL = by options */
    gyre_config config;     /* of the layers shown */
    int64_t trained;
} plot_subject;

/* A subject under a method. */
typedef struct plot_case {
    char label[PLOT_LABEL];
    const plot_subject *subject;
    method method;
    gyre_encoding *encoding; /* owned; at length `to` */
    int64_t pairs, trained, to;
    int follows_length; /* 1: frequencies depend on the length in use */
    double attention;   /* factor of cos and sin */
    double *inv_freq;   /* [pairs] at length `to` */
    double *original;   /* [pairs] of the unscaled model, as trained */
} plot_case;

/* Options that only some kinds take, as bits (cli_option.of). */
enum {
    PLOT_OPTION_COMPARE = 1 << 0,
    PLOT_OPTION_METHODS = 1 << 1, /* --methods, --method */
    PLOT_OPTION_TO = 1 << 2,
    PLOT_OPTION_FACTOR = 1 << 3,
    PLOT_OPTION_TRAINED = 1 << 4,
    PLOT_OPTION_BASE = 1 << 5,
    PLOT_OPTION_BASES = 1 << 6,
    PLOT_OPTION_HEAD_DIM = 1 << 7,
    PLOT_OPTION_BETAS = 1 << 8,
    PLOT_OPTION_POSITION = 1 << 9,
    PLOT_OPTION_POINTS = 1 << 10,
    PLOT_OPTION_LAYER = 1 << 11,
    PLOT_OPTION_HEAD = 1 << 12,
    PLOT_OPTION_TOKENS = 1 << 13,
    PLOT_OPTION_AS = 1 << 14,
    PLOT_OPTION_LAYER_TYPE = 1 << 15,
    PLOT_OPTION_TEXT = 1 << 16, /* --text, --ids, --tokenizer */
    PLOT_OPTION_AXIS = 1 << 17,
    /* Of a rotation without methods, and of one that methods stretch. */
    PLOT_OPTIONS_ROTATION = PLOT_OPTION_BASE | PLOT_OPTION_HEAD_DIM | PLOT_OPTION_AS | PLOT_OPTION_LAYER_TYPE,
    PLOT_OPTIONS_STRETCH = PLOT_OPTIONS_ROTATION | PLOT_OPTION_COMPARE | PLOT_OPTION_METHODS | PLOT_OPTION_TO |
                           PLOT_OPTION_FACTOR | PLOT_OPTION_TRAINED | PLOT_OPTION_BETAS
};

/* The third axis of a helix. */
typedef enum plot_axis { PLOT_AXIS_PAIR, PLOT_AXIS_POSITION } plot_axis;

typedef struct plot_kind plot_kind;
typedef struct plot_options {
    cli_options common; /* first */
    const plot_kind *kind;
    const char *files[PLOT_FILES]; /* arguments after KIND: a model, or results of runs */
    int files_count, csv;
    const char *compare;
    model_options model;
    method_options method;
    stretch_options stretch;
    reading_options reading;
    double base, factor;
    int64_t head_dim, position, layer, head, points, tokens;
    double bases[PLOT_BASES];
    int bases_count;
    plot_axis axis;
    gyre_exec exec;
} plot_options;

/* -- plot_subjects.c -- */
/* Reads MODEL, --compare and the options of a rotation into subjects[], *count >= 1.  out = 0, or CLI_FAILED with the error
 * printed. */
int plot_subjects_read(const plot_options *o, plot_subject subjects[PLOT_SUBJECTS], int *count);
/* names[] = the models that are named, as given: MODEL, or both of --compare unless they are methods.  out = how many.  Ends
 * the program with a usage error where --compare is not what the kind takes. */
int plot_models(const plot_options *o, const char *names[PLOT_SUBJECTS]);
void plot_subjects_free(plot_subject *subjects, int count);
/* cases[] = every subject under every method of --methods, --method or --compare, else of `usual`.  *count <= PLOT_CASES.
 * Errors: EINVAL, EUNSUPPORTED (no rotation), ENOMEM. */
gyre_status plot_cases_make(const plot_options *o, const plot_subject *subjects, int subjects_count, const char *usual,
                            plot_case cases[PLOT_CASES], int *count, gyre_error *err);
void plot_cases_free(plot_case *cases, int count);
/* out = the length to which a subject is stretched: --to, else --factor times the trained length, else as its own
 * scaling says, else 4 times. */
int64_t plot_target(const plot_options *o, const plot_subject *s);
/* inv_freq[pairs] = the frequencies of a case with `length` tokens in use. */
gyre_status plot_case_frequencies(const plot_case *c, int64_t length, double *inv_freq, gyre_error *err);
/* A figure shows at most PLOT_PAIRS pairs: of a head of more that many, from the first to the last at even steps.  out = how
 * many; the pair that is number i of them. */
enum { PLOT_PAIRS = 256, PLOT_PAIRS_TEXT = 56 };
int64_t plot_pairs_shown(int64_t pairs);
int64_t plot_pair_shown(int64_t pairs, int64_t i);
/* out = "256 of 4096 pairs", or "64 pairs" where all are shown. */
const char *plot_pairs_text(int64_t pairs, char out[PLOT_PAIRS_TEXT]);
/* out = the angle within -pi .. pi. */
double plot_wrap(double angle);
/* out = how far the angle is past the arc that the pair reached within the trained length (method_map_excess). */
double plot_excess(const plot_case *c, int64_t pair, double angle);

/* -- the script: plot_script.c -- */
typedef struct plot_script {
    FILE *file; /* gnuplot commands are written to it */
    char *text; /* after plot_script_end */
    size_t length;
    int width, height;
    double panel_height, panel_width; /* of the panel that was begun last */
} plot_script;
/* A place on the picture, fractions of its width and height, from the lower left corner. */
typedef struct plot_box {
    double left, right, bottom, top;
} plot_box;

int plot_script_begin(plot_script *s); /* out = 0 if memory ran out */
/* Style of axes, grid and text, and multiplot with the title on top. */
void plot_script_start(plot_script *s, int width, int height, const char *title);
void plot_text(plot_script *s, const char *text);  /* as a gnuplot string */
void plot_box_begin(plot_script *s, plot_box box); /* a panel: clears what the one before set */
void plot_panel_title(plot_script *s, const char *text);
void plot_label(plot_script *s, char axis, const char *text); /* of axis x, y or z */
/* The rows first .. end - 1 as a data block $NAME: numbers as they are, texts in double quotes. */
void plot_data(plot_script *s, const plot_table *t, const char *name, int64_t first, int64_t end);
/* out = the place of panel `index` of `count` in rows of `columns`, below the title. */
plot_box plot_grid(const plot_script *s, int index, int count, int columns);
/* Colour, dash and symbol: "linecolor rgb '#0072b2' dashtype solid pointtype 7". */
const char *plot_look(gyre_report_look look, char out[PLOT_LOOK]);
const char *plot_color(gyre_report_look look); /* the colour alone */
/* out = the look of a row's label in a column, as in every figure (subject_look); that of series i for a label that names
 * neither a method nor an encoding. */
gyre_report_look plot_look_of(const plot_table *t, int64_t row, int column, int i);
/* The command that plots a line for each group of $all, titled by its name.  using: gnuplot's columns, "2:3"; band: those of
 * an area behind each line, or NULL. */
typedef struct plot_lines {
    int column;
    const char *using, *band;
    double width, point_size;
    int interval; /* points from symbol to symbol */
    int by_order; /* 1: looks in order, whatever the names */
} plot_lines;
void plot_put_lines(plot_script *s, const plot_table *t, const plot_lines *lines);
/* Labels to the right of the panel, moved apart where they would overlap, and lines to them from the heights where the
 * lines end. */
typedef struct plot_end {
    const char *text;
    gyre_report_look look; /* its symbol is before the text; zeros = none */
    double at;             /* height, 0 .. 1 */
} plot_end;
/* count: at most PLOT_ENDS */
void plot_end_labels(plot_script *s, plot_end *ends, int count);
/* Ticks at powers of two, written as 4k, from low to high. */
void plot_ticks_of_two(plot_script *s, char axis, double low, double high);
void plot_ticks_of_ten(plot_script *s, char axis, double low, double high); /* the same, 1 to 10000, then 10⁵ */
void plot_ticks_of_tokens(plot_script *s, double high);                     /* on a linear x axis from 0: 4k, 8k */
/* out = how to plot a map.  Few cells are drawn as rectangles: a viewer may smooth an image that it enlarges. */
const char *plot_image(double cells);
/* Draws and writes the picture.  out = 0, or CLI_FAILED with the error printed. */
int plot_script_write(const plot_script *s, const char *title, gyre_report_format format, FILE *file);

/* -- kinds -- */
typedef struct plot_work {
    const plot_options *options;
    plot_subject subjects[PLOT_SUBJECTS];
    int subjects_count;
    int64_t trained; /* of runs that were read; 0 = not said */
    int seeds;       /* 1: a range is that of the seeds, not a 95 % interval */
    plot_table table;
} plot_work;

struct plot_kind {
    const char *name, *help;
    /* What is read before compute is called; PLOT_TAKES_MODEL: a model if one is named. */
    enum { PLOT_TAKES_SUBJECT, PLOT_TAKES_MODEL, PLOT_TAKES_NOTHING } takes;
    int files;        /* at most so many arguments after KIND */
    unsigned options; /* PLOT_OPTION_... that it takes */
    gyre_status (*compute)(plot_work *w, gyre_error *err);
    void (*draw)(const plot_work *w, plot_script *s);
};
/* plot_turns.c: a helix by position. */
/* Columns of the data, by number; z NULL = flat. */
typedef struct plot_helix_columns {
    const char *x, *y, *z;
} plot_helix_columns;
/* A line over the rows ("::FIRST::LAST"), and a point where column 6 is 1. */
void plot_helix_curve(plot_script *s, const char *rows, const plot_helix_columns *of, double point_size, const char *color);
gyre_status plot_turns_compute(plot_work *w, gyre_error *err);
void plot_turns_draw(const plot_work *w, plot_script *s);
/* plot_runs.c.  out = 0, or CLI_FAILED with the error printed: one figure cannot hold so many results.  Tables of other
 * kinds of figures fit. */
int plot_runs_fit(const plot_table *t);
extern const plot_kind plot_methods, plot_wavelengths, plot_decay, plot_ramp, plot_clock, plot_hands, plot_helix, plot_rows,
    plot_digits, plot_shift, plot_bias, plot_attention, plot_perplexity, plot_passkey, plot_copying, plot_accuracy;

#endif
