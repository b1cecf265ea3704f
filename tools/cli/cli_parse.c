/* cli_parse.c: reads the options of every subcommand from its table, on top of argp. */
#include "tools/cli/cli_parse.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_guard.h"
#include "tools/cli/cli_page.h"
#include "tools/cli/cli_values.h"
#include "util/path.h"
#include "util/suggest.h"
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 1024, MAX_NAME = 40, MAX_INTRO = 2048, MAX_USAGE = 48, MAX_WORDS = 256, MAX_CHOICES = 16 };

/* -- options that commands share -- */
static void read_threads(const char *option, const char *text, void *at) {
    *(int *)at = (int)cli_integer(option, text, 0, MAX_THREADS);
}

#define CLI_STRUCT cli_options
enum { OUTPUT = 2, FORCE, HELP, COMMON_ROWS };
/* Row i is bit i of cli_command.common; every command has --help, and one that writes a file --force.  Negative groups come
 * after the command's own. */
static const cli_option common_rows[COMMON_ROWS] = {
    {"threads", "N", "Threads to compute with; 0 = one per processor (default: GYRE_THREADS, else 0)", -2,
     CLI_OTHER(int, threads, read_threads)},
    {"json", NULL, "Print JSON for machines", -2, CLI_FLAG(json)},
    {"output", "FILE", "Write the result to FILE, whole or not at all (default: standard output)", -2, CLI_TEXT(output),
     .letter = 'o', .file = CLI_FILE_WRITTEN},
    {"force", NULL, "Replace files that exist", -2, CLI_FLAG(force)},
    {"help", NULL, "Print this help", -1, CLI_NONE, .letter = 'h'}};

/* -- the table -- */
enum { FIRST_KEY = 0x100 };
typedef struct parse_state {
    const cli_command *command;
    cli_options *options;
    const char *epilog;                            /* help after the options; NULL = none */
    const cli_option *rows[CLI_MAX_OPTIONS];       /* [count] the command's, then those that it shares */
    struct argp_option table[CLI_MAX_OPTIONS + 1]; /* the same for argp, then hidden words; row i has key FIRST_KEY + i */
    int count;
} parse_state;

static void add_row(parse_state *p, const cli_option *o) {
    if (p->count == CLI_MAX_OPTIONS) abort(); /* a table of this source is too long */
    const int key = !o->name ? 0 : o->letter ? o->letter : FIRST_KEY + p->count;
    p->table[p->count] = (struct argp_option){o->name, key, o->argument, 0, o->help, o->group};
    p->rows[p->count++] = o;
}

static const cli_option *row_of(const parse_state *p, int key) {
    for (int i = 0; i < p->count; i++)
        if (p->rows[i]->name && p->table[i].key == key) return p->rows[i];
    return NULL;
}

/* Words for a length of context.  A command takes one of them; the others mean the same there, hidden from its help. */
static const char *const length_words[] = {"context", "contexts", "length", "lengths", "to"};
enum { LENGTH_WORDS = sizeof length_words / sizeof *length_words };

static int is_length_option(const cli_option *o) {
    if (!o->name || !o->argument || (strcmp(o->argument, "N") != 0 && strcmp(o->argument, "LIST") != 0)) return 0;
    for (int i = 0; i < LENGTH_WORDS; i++)
        if (strcmp(o->name, length_words[i]) == 0) return 1;
    return 0;
}

static int has_option(const parse_state *p, const char *name) {
    for (int i = 0; i < p->count; i++)
        if (p->rows[i]->name && strcmp(p->rows[i]->name, name) == 0) return 1;
    return 0;
}

/* Adds the hidden words if exactly one option is a length of context. */
static void add_length_words(parse_state *p) {
    int length = -1, lengths = 0, end = p->count;
    for (int i = 0; i < p->count; i++)
        if (is_length_option(p->rows[i])) length = i, lengths++;
    for (int i = 0; i < LENGTH_WORDS && lengths == 1 && end < CLI_MAX_OPTIONS; i++) {
        if (has_option(p, length_words[i])) continue;
        p->table[end] = p->table[length];
        p->table[end].name = length_words[i];
        p->table[end++].flags = OPTION_HIDDEN;
    }
}

static void make_table(parse_state *p) {
    int writes = (p->command->common & 1U << OUTPUT) != 0;
    for (const cli_option *o = p->command->options; o && o->help; o++) {
        add_row(p, o);
        writes |= o->file >= CLI_FILE_WRITTEN;
    }
    for (int i = 0; i < COMMON_ROWS; i++)
        if (i == HELP || (i == FORCE ? writes : (p->command->common & 1U << i) != 0)) add_row(p, &common_rows[i]);
    add_length_words(p);
}

/* -- help and errors -- */
/* Removes argp's note that the value of --output also applies to -o. */
static char *filter_help(int key, const char *text, void *input) {
    (void)input;
    return key == ARGP_KEY_HELP_DUP_ARGS_NOTE ? NULL : (char *)text;
}

/* argp breaks any line at column 0, so it prints no more than usage and options. */
static void print_help(const parse_state *p, struct argp_state *state) {
    state->flags &= ~(unsigned)ARGP_NO_ERRS; /* ARGP_NO_ERRS also suppresses help */
    argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
    const size_t length = p->epilog ? strlen(p->epilog) : 0;
    if (length) cli_page_printf(stdout, "\n%s%s", p->epilog, p->epilog[length - 1] == '\n' ? "" : "\n");
    /* Help longer than the stdio buffer may have failed earlier. */
    exit(fflush(stdout) || ferror(stdout) ? cli_fail("standard output: %s (help)", strerror(errno)) : 0);
}

/* Reports a wrong option itself: getopt's own messages have another form, and its silent mode says only that something is
 * wrong with `text`. */
static _Noreturn void option_error(const parse_state *p, const char *text) {
    if (strncmp(text, "--", 2) != 0) cli_usage_error("%s: no such option, or its value is missing", text);
    const struct argp_option *found = NULL;
    const char *names[CLI_MAX_OPTIONS];
    char name[MAX_NAME];
    const size_t length = strcspn(text + 2, "="), kept = length < sizeof name ? length : sizeof name - 1;
    int count = 0;
    memcpy(name, text + 2, kept);
    name[kept] = 0;
    for (const struct argp_option *o = p->table; o->name || o->doc; o++) {
        if (!o->name) continue;
        names[count++] = o->name;
        if (strncmp(o->name, name, kept) != 0) continue;
        const int exact = strlen(o->name) == kept;
        if (!exact && (o->flags & OPTION_HIDDEN)) continue;
        if (found && !exact) cli_usage_error("--%s: begins both --%s and --%s", name, found->name, o->name);
        found = o;
        if (exact) break;
    }
    if (found && found->arg) cli_usage_error("--%s: its value %s is missing", found->name, found->arg);
    if (found) cli_usage_error("--%s: takes no value", found->name);
    const char *nearest = gyre_closest_name(name, names, count);
    if (nearest) cli_usage_error("--%s: no such option; did you mean --%s?", name, nearest);
    cli_usage_error("--%s: no such option", name);
}

/* -- values -- */
/* out = the place of the text among words such as "a|b|c". */
static int choose(const char *option, const char *text, const char *words) {
    char copy[MAX_WORDS];
    const char *names[MAX_CHOICES];
    int count = 0;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *rest = copy; rest && count < MAX_CHOICES;) {
        names[count++] = rest;
        rest = strchr(rest, '|');
        if (rest) *rest++ = 0;
    }
    return cli_choice(option, text, names, count);
}

void cli_option_read(const cli_option *o, const char *text, void *options) {
    char option[MAX_NAME];
    void *at = (char *)options + o->at;
    const int64_t least = (int64_t)o->least, most = isinf(o->most) ? INT64_MAX : (int64_t)o->most;
    snprintf(option, sizeof option, "--%s", o->name);
    switch (o->type) {
    case CLI_TYPE_NONE:
        return;
    case CLI_TYPE_FLAG:
        *(int *)at = 1;
        return;
    case CLI_TYPE_INTEGER:
        *(int64_t *)at = cli_integer(option, text, least, most);
        return;
    case CLI_TYPE_EVEN:
        *(int64_t *)at = cli_even_integer(option, text, least, most);
        return;
    case CLI_TYPE_NUMBER:
        *(double *)at = cli_number(option, text, o->least, o->most);
        return;
    case CLI_TYPE_TEXT:
        *(const char **)at = text;
        return;
    case CLI_TYPE_CHOICE:
        *(int *)at = (int)least + choose(option, text, o->argument);
        return;
    case CLI_TYPE_OTHER:
        o->read(option, text, at);
    }
}

int cli_given(const cli_options *options, const char *name) {
    for (int i = 0; i < options->given_count; i++)
        if (strcmp(options->given[i]->name, name) == 0) return 1;
    return 0;
}

const cli_option *cli_given_of(const cli_options *options, unsigned bits) {
    for (int i = 0; i < options->given_count; i++)
        if (options->given[i]->of & bits) return options->given[i];
    return NULL;
}

/* out = 1 if one of "a|b" was on the command line. */
static int is_one_given(const cli_options *options, const char *names) {
    for (int i = 0; i < options->given_count; i++) {
        const char *name = options->given[i]->name;
        const size_t length = strlen(name);
        for (const char *one = names; one; one = strchr(one, '|') ? strchr(one, '|') + 1 : NULL)
            if (strncmp(one, name, length) == 0 && (one[length] == '|' || !one[length])) return 1;
    }
    return 0;
}

/* What is missing first: with it, the command line may mean something else. */
static void check_given(const cli_options *options) {
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < options->given_count; i++) {
            const cli_option *o = options->given[i];
            const int is_wrong =
                pass ? o->excludes && cli_given(options, o->excludes) : o->needs && !is_one_given(options, o->needs);
            if (is_wrong) cli_usage_error("--%s: %s", o->name, o->why);
        }
}

/* Notes the file that an option names.  The code that knows an argument is a file notes it: model_path_find for a model. */
static void note_file(const cli_option *o, const char *text) {
    if (o->file == CLI_FILE_READ) cli_guard_read(text);
    if (o->file >= CLI_FILE_WRITTEN) cli_guard_write(o->name, text, CLI_GUARD_FILE + (o->file - CLI_FILE_WRITTEN));
}

static void read_row(const cli_option *o, const char *text, cli_options *options) {
    note_file(o, text);
    cli_option_read(o, text, options);
    for (int i = 0; i < options->given_count; i++)
        if (options->given[i] == o) return;
    options->given[options->given_count++] = o;
}

static error_t parse(int key, char *text, struct argp_state *state) {
    parse_state *p = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (!p->command->argument) cli_usage_error("%s: %s takes no such argument", text, state->argv[0]);
        return p->command->argument((char *)p->options + p->command->argument_at, text) ? ARGP_ERR_UNKNOWN : 0;
    case ARGP_KEY_END:
        check_given(p->options);
        if (p->command->finish) p->command->finish(p->options);
        return 0;
    case ARGP_KEY_ERROR:
        option_error(p, state->argv[state->next > 1 ? state->next - 1 : 1]);
    default:
        break;
    }
    const cli_option *o = row_of(p, key);
    if (!o) return ARGP_ERR_UNKNOWN;
    if (o == &common_rows[HELP]) print_help(p, state);
    read_row(o, text, p->options);
    return 0;
}

static void threads_from_environment(cli_options *options) {
    const char *text = getenv("GYRE_THREADS");
    if (options->threads >= 0) return;
    options->threads = 0;
    if (text && *text) read_threads("GYRE_THREADS", text, &options->threads);
}

static void check_processor(void) {
    gyre_error err;
    if (gyre_cpu_check(&err)) cli_usage_error("%s", err.text);
}

/* -- the command line -- */
static struct {
    int (*describe)(const cli_description *description, const void *context);
    const void *context;
} describing;

void cli_parse_describe(int (*describe)(const cli_description *description, const void *context), const void *context) {
    describing.describe = describe;
    describing.context = context;
}

static int is_alone;

void cli_parse_alone(void) {
    is_alone = 1;
}

/* As argp's help does. */
static int order(const void *left, const void *right) {
    const cli_option *a = *(const cli_option *const *)left, *b = *(const cli_option *const *)right;
    const int a_last = a->group < 0, b_last = b->group < 0;
    if (a_last != b_last) return a_last - b_last;
    if (a->group != b->group) return a->group < b->group ? -1 : 1;
    if (!a->name || !b->name) return (a->name != NULL) - (b->name != NULL);
    return strcmp(a->name, b->name);
}

static _Noreturn void describe(parse_state *p, const char *title) {
    qsort((void *)p->rows, (size_t)p->count, sizeof(const cli_option *), order);
    const cli_description description = {title, p->rows, p->count, p->command->arguments, p->command->text};
    exit(describing.describe(&description, describing.context));
}

void cli_parse(const cli_command *command, int argc, char **argv, void *options) {
    parse_state p = {.command = command, .options = options};
    make_table(&p);
    if (describing.describe) describe(&p, argv[0]);
    const char *more = strchr(command->text, '\v');
    char intro[MAX_INTRO];
    snprintf(intro, sizeof intro, "%.*s", more ? (int)(more - command->text) : (int)strlen(command->text), command->text);
    p.epilog = more ? more + 1 : NULL;
    /* argp cannot break a usage of many names, which the text after the options explains. */
    const struct argp argp = {.options = p.table,
                              .parser = parse,
                              .args_doc = strlen(command->arguments) > MAX_USAGE ? "NAME" : command->arguments,
                              .doc = intro,
                              .help_filter = filter_help};
    cli_set_command_name(argv[0]);
    p.options->threads = -1;
    int next = argc;
    const error_t failed = argp_parse(&argp, argc, argv, ARGP_NO_HELP | ARGP_NO_ERRS | ARGP_NO_EXIT, &next, &p);
    if (failed == ENOMEM) exit(cli_fail("options: out of memory (%s)", argv[0]));
    if (failed) cli_usage_error("options: %s", strerror(failed));
    if (next < argc) cli_usage_error("%s: one argument too many", argv[next]);
    if (is_alone) exit(0);
    threads_from_environment(p.options);
    check_processor();
    cli_guard_check(p.options->force);
}

int cli_pool_open(const cli_options *options, gyre_pool **pool, gyre_exec *exec) {
    gyre_error err = {0, ""};
    if (gyre_pool_create(pool, options->threads, &err)) return cli_fail_error(&err);
    *exec = gyre_pool_exec(*pool);
    return 0;
}

/* -- the command line as text -- */
static size_t put_char(char *out, size_t size, size_t used, char c) {
    if (used + 1 < size) out[used++] = c;
    out[used] = 0;
    return used;
}

void cli_command_line(int argc, char **argv, char *out, size_t size) {
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=.,:/@%";
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        /* argv[0] is "gyre NAME": two words already. */
        const int quote = i > 0 && (!*word || word[strspn(word, plain)]);
        if (i) used = put_char(out, size, used, ' ');
        if (quote) used = put_char(out, size, used, '\'');
        for (; *word; word++)
            if (*word == '\'')
                for (const char *c = "'\\''"; *c; c++)
                    used = put_char(out, size, used, *c);
            else
                used = put_char(out, size, used, *word);
        if (quote) used = put_char(out, size, used, '\'');
    }
}
