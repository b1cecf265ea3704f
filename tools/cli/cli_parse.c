/* cli_parse.c: the option parser of every subcommand, on top of argp. */
#include "tools/cli/cli_parse.h"
#include "tools/cli/cli_error.h"
#include "tools/cli/cli_guard.h"
#include "tools/cli/cli_page.h"
#include "tools/cli/cli_values.h"
#include "util/path.h"
#include "util/suggest.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 1024, KEY_THREADS = 0x100, KEY_JSON };

/* Negative groups: argp prints them after the command's own options. */
static const struct {
    unsigned flag;
    struct argp_option option;
} common_options[] = {
    {CLI_THREADS,
     {"threads", KEY_THREADS, "N", 0, "Threads to compute with; 0 = one per processor (default: GYRE_THREADS, else 0)", -2}},
    {CLI_JSON, {"json", KEY_JSON, NULL, 0, "Print JSON for machines", -2}},
    {CLI_OUTPUT, {"output", 'o', "FILE", 0, "Write the result to FILE, whole or not at all (default: standard output)", -2}},
    {0, {"help", 'h', NULL, 0, "Print this help", -1}}};
enum { COMMON_OPTIONS = sizeof common_options / sizeof *common_options };

/* Shared by the parsers of one command. */
typedef struct parse_state {
    const struct argp *command, *common;
    argp_parser_t parser; /* the command's */
    cli_options *options;
    const char *epilog; /* help after the options; NULL = none */
} parse_state;

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

static error_t parse_common(int key, char *text, struct argp_state *state) {
    parse_state *p = state->input;
    switch (key) {
    case KEY_THREADS:
        p->options->threads = (int)cli_integer("--threads", text, 0, MAX_THREADS);
        return 0;
    case KEY_JSON:
        p->options->json = 1;
        return 0;
    case 'o':
        cli_guard_write("output", text, CLI_GUARD_FILE);
        p->options->output = text;
        return 0;
    case 'h':
        print_help(p, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

enum { MAX_OPTIONS = 96, MAX_NAME_LENGTH = 32, MAX_INTRO = 2048, MAX_USAGE = 48, MAX_WORDS = 256, MAX_CHOICES = 16 };

/* -- one word for one thing -- */
/* Words for a length of context.  A command takes one of them; the others mean the same there, hidden from its help. */
static const char *const length_words[] = {"context", "contexts", "length", "lengths", "to"};
enum { LENGTH_WORDS = sizeof length_words / sizeof *length_words };

static int is_length_option(const struct argp_option *o) {
    if (!o->name || !o->arg || (strcmp(o->arg, "N") != 0 && strcmp(o->arg, "LIST") != 0)) return 0;
    for (int i = 0; i < LENGTH_WORDS; i++)
        if (strcmp(o->name, length_words[i]) == 0) return 1;
    return 0;
}

static int has_option(const struct argp_option *options, const char *name) {
    for (const struct argp_option *o = options; o->name || o->doc; o++)
        if (o->name && strcmp(o->name, name) == 0) return 1;
    return 0;
}

/* out = the command's options, followed by the hidden words if exactly one of its options is a length of context. */
static void add_length_words(const struct argp_option *options, struct argp_option out[MAX_OPTIONS + 1]) {
    const struct argp_option *length = NULL;
    int count = 0, lengths = 0;
    for (const struct argp_option *o = options; (o->name || o->doc) && count < MAX_OPTIONS - LENGTH_WORDS; o++) {
        if (is_length_option(o)) length = o, lengths++;
        out[count++] = *o;
    }
    for (int i = 0; i < LENGTH_WORDS && lengths == 1; i++)
        if (!has_option(options, length_words[i]))
            out[count++] =
                (struct argp_option){length_words[i], length->key, length->arg, OPTION_HIDDEN, length->doc, length->group};
    out[count] = (struct argp_option){0};
}

/* out = the number of options that the command has in all. */
static int list_options(const parse_state *p, const struct argp_option *out[MAX_OPTIONS]) {
    const struct argp_option *const tables[] = {p->command->options, p->common->options};
    int count = 0;
    for (int i = 0; i < 2; i++)
        for (const struct argp_option *o = tables[i]; o && (o->name || o->doc) && count < MAX_OPTIONS; o++)
            if (o->name) out[count++] = o; /* no name: a heading */
    return count;
}

/* Reports a wrong option itself: getopt's own messages have another form, and its silent mode says only that something is
 * wrong with `text`. */
static _Noreturn void option_error(const parse_state *p, const char *text) {
    if (strncmp(text, "--", 2) != 0) cli_usage_error("%s: no such option, or its value is missing", text);
    const struct argp_option *options[MAX_OPTIONS], *found = NULL;
    const char *names[MAX_OPTIONS];
    char name[MAX_NAME_LENGTH + 2];
    const size_t length = strcspn(text + 2, "="), kept = length < sizeof name ? length : sizeof name - 1;
    memcpy(name, text + 2, kept);
    name[kept] = 0;
    const int all = list_options(p, options);
    for (int i = 0; i < all; i++) {
        names[i] = options[i]->name;
        if (strncmp(names[i], name, kept) != 0) continue;
        const int exact = strlen(names[i]) == kept;
        if (!exact && (options[i]->flags & OPTION_HIDDEN)) continue;
        if (found && !exact) cli_usage_error("--%s: begins both --%s and --%s", name, found->name, names[i]);
        found = options[i];
        if (exact) break;
    }
    if (found && found->arg) cli_usage_error("--%s: its value %s is missing", found->name, found->arg);
    if (found) cli_usage_error("--%s: takes no value", found->name);
    const char *nearest = gyre_closest_name(name, names, all);
    if (nearest) cli_usage_error("--%s: no such option; did you mean --%s?", name, nearest);
    cli_usage_error("--%s: no such option", name);
}

/* -- what is read and written -- */
static const struct argp_option *option_of_key(const struct argp_option *options, int key) {
    for (const struct argp_option *o = options; o && (o->name || o->doc); o++)
        if (o->name && o->key == key) return o;
    return NULL;
}

/* What an option writes: a model's file (--write, and convert's GGUF), a folder that the command fills (train's, and
 * convert's), or a result. */
static cli_guard_kind kind_of(const struct argp_option *o, const char *text) {
    if (strcmp(o->name, "write") == 0) return CLI_GUARD_MODEL;
    if (strcmp(o->arg, "DIR") == 0) return CLI_GUARD_FOLDER;
    if (strcmp(o->arg, "PATH") != 0 || strcmp(o->name, "output") != 0) return CLI_GUARD_FILE;
    return gyre_ends_with(text, ".gguf") ? CLI_GUARD_MODEL : CLI_GUARD_FOLDER;
}

/* Notes the files that an option names.  An argument is noted by who knows that it is one: model_path_find for a model. */
static void note_files(const parse_state *p, int key, const char *text) {
    static const char *const written[] = {"output", "report", "figure", "journal", "write"};
    const struct argp_option *o = key == ARGP_KEY_ARG ? NULL : option_of_key(p->command->options, key);
    if (o && strcmp(o->name, "check") == 0) cli_guard_read(text);
    if (!o || !o->arg) return;
    if (strcmp(o->name, "work") == 0) {
        cli_guard_write(o->name, text, CLI_GUARD_FOLDER);
        return;
    }
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (strcmp(o->name, written[i]) == 0) {
            cli_guard_write(o->name, text, kind_of(o, text));
            return;
        }
    if (strcmp(o->name, "text") == 0)
        cli_guard_read_text(text);
    else if (strcmp(o->arg, "FILE") == 0 || strcmp(o->arg, "PATH") == 0 || strcmp(o->arg, "DIR") == 0)
        cli_guard_read(text);
}

/* The command's own parser, with its options as input. */
static error_t parse_own(int key, char *text, struct argp_state *state) {
    parse_state *p = state->input;
    if (text) note_files(p, key, text);
    state->input = p->options;
    const error_t error = p->parser(key, text, state);
    state->input = p;
    return error;
}

static error_t parse_children(int key, char *text __attribute__((unused)), struct argp_state *state) {
    parse_state *p = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = p;
        state->child_inputs[1] = p;
        return 0;
    case ARGP_KEY_ERROR:
        option_error(p, state->argv[state->next > 1 ? state->next - 1 : 1]);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void threads_from_environment(cli_options *options) {
    const char *text = getenv("GYRE_THREADS");
    if (options->threads >= 0) return;
    options->threads = text && *text ? (int)cli_integer("GYRE_THREADS", text, 0, MAX_THREADS) : 0;
}

static void check_processor(void) {
    gyre_error err;
    if (gyre_cpu_check(&err)) cli_usage_error("%s", err.text);
}

static struct {
    int (*describe)(const cli_description *description, const void *context);
    const void *context;
} describing;

void cli_parse_describe(int (*describe)(const cli_description *description, const void *context), const void *context) {
    describing.describe = describe;
    describing.context = context;
}

void cli_parse(const struct argp *argp, unsigned takes, int argc, char **argv, cli_options *options) {
    struct argp_option table[COMMON_OPTIONS + 1] = {{0}};
    for (int i = 0, n = 0; i < COMMON_OPTIONS; i++)
        if (!common_options[i].flag || (common_options[i].flag & takes)) table[n++] = common_options[i].option;
    const struct argp common = {.options = table, .parser = parse_common};
    if (describing.describe) {
        const cli_description description = {argv[0], argp->options, table, argp->args_doc, argp->doc};
        exit(describing.describe(&description, describing.context));
    }
    struct argp_option own[MAX_OPTIONS + 1];
    if (argp->options) add_length_words(argp->options, own);
    const struct argp command = {.options = argp->options ? own : NULL, .parser = parse_own};
    const struct argp_child children[] = {{&command, 0, NULL, 0}, {&common, 0, NULL, 0}, {NULL, 0, NULL, 0}};
    const char *more = argp->doc ? strchr(argp->doc, '\v') : NULL;
    char intro[MAX_INTRO];
    snprintf(intro, sizeof intro, "%.*s",
             !argp->doc ? 0
             : more     ? (int)(more - argp->doc)
                        : (int)strlen(argp->doc),
             argp->doc ? argp->doc : "");
    /* argp cannot break a usage of many names, which the text after the options explains. */
    const int many_names = argp->args_doc && strlen(argp->args_doc) > MAX_USAGE;
    const struct argp whole = {.parser = parse_children,
                               .help_filter = filter_help,
                               .args_doc = many_names ? "NAME" : argp->args_doc,
                               .doc = intro,
                               .children = children};
    parse_state p = {&command, &common, argp->parser, options, more ? more + 1 : NULL};
    cli_set_command_name(argv[0]);
    options->threads = -1;
    int next = argc;
    const error_t failed = argp_parse(&whole, argc, argv, ARGP_NO_HELP | ARGP_NO_ERRS | ARGP_NO_EXIT, &next, &p);
    if (failed == ENOMEM) exit(cli_fail("options: out of memory (%s)", argv[0]));
    if (failed) cli_usage_error("options: %s", strerror(failed));
    if (next < argc) cli_usage_error("%s: one argument too many", argv[next]);
    threads_from_environment(options);
    check_processor();
    cli_guard_check();
}

/* -- rows -- */
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
    char option[MAX_NAME_LENGTH + 3];
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
    return (strcmp(name, "json") == 0 && options->json) || (strcmp(name, "output") == 0 && options->output);
}

const cli_option *cli_given_of(const cli_options *options, unsigned bits) {
    for (int i = 0; i < options->given_count; i++)
        if (options->given[i]->of & bits) return options->given[i];
    return NULL;
}

/* What is missing first: with it, the command line may mean something else. */
static void check_given(const cli_options *options) {
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < options->given_count; i++) {
            const cli_option *o = options->given[i];
            const int is_wrong =
                pass ? o->excludes && cli_given(options, o->excludes) : o->needs && !cli_given(options, o->needs);
            if (is_wrong) cli_usage_error("--%s: %s", o->name, o->why);
        }
}

static const cli_command *parsed;

static void read_row(const cli_option *o, const char *text, cli_options *options) {
    cli_option_read(o, text, options);
    for (int i = 0; i < options->given_count; i++)
        if (options->given[i] == o) return;
    if (options->given_count < CLI_MAX_GIVEN) options->given[options->given_count++] = o;
}

static error_t parse_rows(int key, char *text, struct argp_state *state) {
    if (key == ARGP_KEY_ARG && parsed->argument) return parsed->argument(state->input, text) ? ARGP_ERR_UNKNOWN : 0;
    if (key == ARGP_KEY_ARG) cli_usage_error("%s: %s takes no such argument", text, state->argv[0]);
    if (key == ARGP_KEY_END) {
        check_given(state->input);
        if (parsed->finish) parsed->finish(state->input);
        return 0;
    }
    const cli_option *rows = parsed->options;
    for (int i = 0; rows && rows[i].help; i++)
        if (rows[i].name && key == (rows[i].letter ? rows[i].letter : CLI_FIRST_KEY + i)) {
            read_row(&rows[i], text, state->input);
            return 0;
        }
    return ARGP_ERR_UNKNOWN;
}

void cli_parse_table(const cli_command *command, int argc, char **argv, void *options) {
    struct argp_option rows[MAX_OPTIONS] = {{0}};
    const cli_option *o = command->options;
    for (int i = 0; o && o[i].help && i + 1 < MAX_OPTIONS; i++)
        rows[i] = (struct argp_option){o[i].name,     !o[i].name ? 0 : o[i].letter ? o[i].letter : CLI_FIRST_KEY + i,
                                       o[i].argument, 0,
                                       o[i].help,     o[i].group};
    const struct argp argp = {o ? rows : NULL, parse_rows, command->arguments, command->text, NULL, NULL, NULL};
    parsed = command;
    cli_parse(&argp, command->common, argc, argv, options);
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
