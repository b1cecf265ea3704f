/* cli.c: the frame of every subcommand. */
/* For realpath. */
#define _XOPEN_SOURCE 700 // NOLINT(bugprone-reserved-identifier): its name is given
#include "tools/common/cli.h"
#include "util/atomic_file.h"
#include "util/checkpoint_files.h"
#include "util/suggest.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- state of the process: one command runs in it -- */
static const char *command_name = "gyre";
/* The files of cli_output, the one opened last on top.  Static, because the signal handler removes their temporaries. */
enum { MAX_OUTPUTS = 2 };
static gyre_atomic_file output_files[MAX_OUTPUTS];
static int outputs_open;
/* The temporary that gyre_reading_write makes beside its target. */
static char pending_copy[GYRE_TEMPORARY_PATH_BYTES];
static volatile sig_atomic_t copy_pending, bar_drawn, deferred, interrupted;

enum { MAX_NAME_LENGTH = 32 }; /* of an option */

static const char ERASE[] = "\r\033[K";

/* -- errors -- */
/* One line whatever a file name holds; bytes of UTF-8 pass. */
static void print_line(const char *format, va_list arguments, const char *end) {
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
    if (bar_drawn) fputs(ERASE, stderr);
    bar_drawn = 0;
    fprintf(stderr, "gyre: %s%s\n", text, end);
}

int cli_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_line(format, arguments, "");
    va_end(arguments);
    return CLI_FAILED;
}

int cli_fail_error(const gyre_error *err) {
    const size_t length = strlen(err->text);
    if (length && err->text[length - 1] == ')') return cli_fail("%s", err->text);
    return cli_fail("%s (%s)", err->text, command_name); /* it did not say where */
}

void cli_warn(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    print_line(format, arguments, "");
    va_end(arguments);
}

void cli_usage_error(const char *format, ...) {
    char where[64];
    snprintf(where, sizeof where, " (try %s --help)", command_name);
    va_list arguments;
    va_start(arguments, format);
    print_line(format, arguments, where);
    va_end(arguments);
    exit(CLI_USAGE);
}

/* -- values of options -- */
/* out = 1 and *end where digits were read; signs and spaces, which strtoll takes, are not numbers here. */
static int read_integer(const char *text, int64_t *value, const char **end) {
    if (*text < '0' || *text > '9') return 0;
    char *stop;
    errno = 0;
    const long long number = strtoll(text, &stop, 10);
    if (errno) return 0;
    const int thousands = *stop == 'k' || *stop == 'K', millions = *stop == 'm' || *stop == 'M';
    const int64_t unit = millions ? 1 << 20 : thousands ? 1 << 10 : 1;
    if (number > INT64_MAX / unit) return 0;
    *value = number * unit;
    *end = stop + (thousands || millions);
    return 1;
}

static void check_range(const char *option, int64_t value, int64_t least, int64_t most) {
    if (value < least) cli_usage_error("%s: %lld is below %lld", option, (long long)value, (long long)least);
    if (value > most) cli_usage_error("%s: %lld is above %lld", option, (long long)value, (long long)most);
}

int64_t cli_integer(const char *option, const char *text, int64_t least, int64_t most) {
    int64_t value;
    const char *end;
    if (!read_integer(text, &value, &end) || *end)
        cli_usage_error("%s: \"%s\" is not a whole number such as 4096, 4k or 1M", option, text);
    check_range(option, value, least, most);
    return value;
}

int64_t cli_integers(const char *option, const char *text, int64_t least, int64_t most, int64_t **out) {
    int64_t *values = malloc((strlen(text) / 2 + 1) * sizeof *values), count = 0;
    if (!values) cli_usage_error("%s: out of memory for the list", option);
    for (const char *end;; text = end + 1) {
        if (!read_integer(text, &values[count], &end) || (*end && *end != ','))
            cli_usage_error("%s: \"%s\" does not begin with a whole number such as 4096, 4k or 1M", option, text);
        check_range(option, values[count++], least, most);
        if (!*end) break;
    }
    free(*out); /* an option given twice: the last counts */
    *out = values;
    return count;
}

double cli_number(const char *option, const char *text, double least, double most) {
    char *end = NULL;
    const double value = (*text >= '0' && *text <= '9') || *text == '.' ? strtod(text, &end) : NAN;
    if (!end || *end || !isfinite(value)) cli_usage_error("%s: \"%s\" is not a number", option, text);
    if (value < least) cli_usage_error("%s: %g is below %g", option, value, least);
    if (value > most) cli_usage_error("%s: %g is above %g", option, value, most);
    return value;
}

int cli_choice(const char *option, const char *text, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0) return i;
    char known[256] = "";
    for (int i = 0, used = 0; i < count && used < (int)sizeof known; i++)
        used += snprintf(known + used, sizeof known - (size_t)used, "%s%s", i ? ", " : "", names[i]);
    cli_usage_error("%s: \"%s\" is none of %s", option, text, known);
}

gyre_dtype cli_dtype(const char *option, const char *text) {
    static const char *const names[] = {"f32", "f16", "bf16"};
    static const gyre_dtype dtypes[] = {GYRE_DTYPE_F32, GYRE_DTYPE_F16, GYRE_DTYPE_BF16};
    return dtypes[cli_choice(option, text, names, 3)];
}

/* -- options -- */
enum { MAX_THREADS = 1024, KEY_THREADS = 0x100, KEY_JSON };

/* The last groups: below a command's own. */
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

/* What the parsers of one command share. */
typedef struct parse_state {
    const struct argp *command, *common;
    cli_options *options;
} parse_state;

/* Drops argp's remark that -o takes what --output takes. */
static char *filter_help(int key, const char *text, void *input) {
    (void)input;
    return key == ARGP_KEY_HELP_DUP_ARGS_NOTE ? NULL : (char *)text;
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
        if (!*text) cli_usage_error("--output: the name of the file is empty");
        p->options->output = text;
        return 0;
    case 'h':
        state->flags &= ~(unsigned)ARGP_NO_ERRS; /* which silences help too */
        argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
        /* A text longer than the buffer may have failed before this. */
        exit(fflush(stdout) || ferror(stdout) ? cli_fail("standard output: %s (help)", strerror(errno)) : 0);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

enum { MAX_OPTIONS = 64 };

/* out = how many options the command has in all. */
static int list_options(const parse_state *p, const struct argp_option *out[MAX_OPTIONS]) {
    const struct argp_option *const tables[] = {p->command->options, p->common->options};
    int count = 0;
    for (int i = 0; i < 2; i++)
        for (const struct argp_option *o = tables[i]; o && (o->name || o->doc) && count < MAX_OPTIONS; o++)
            if (o->name) out[count++] = o; /* else a heading */
    return count;
}

/* getopt prints its own kind of message or, kept silent, says no more than that something was wrong with `text`. */
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

static error_t parse_children(int key, char *text __attribute__((unused)), struct argp_state *state) {
    parse_state *p = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = p->options;
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

void cli_parse(const struct argp *argp, unsigned takes, int argc, char **argv, cli_options *options) {
    struct argp_option table[COMMON_OPTIONS + 1] = {{0}};
    for (int i = 0, n = 0; i < COMMON_OPTIONS; i++)
        if (!common_options[i].flag || (common_options[i].flag & takes)) table[n++] = common_options[i].option;
    const struct argp common = {.options = table, .parser = parse_common};
    const struct argp command = {.options = argp->options, .parser = argp->parser};
    const struct argp_child children[] = {{&command, 0, NULL, 0}, {&common, 0, NULL, 0}, {NULL, 0, NULL, 0}};
    const struct argp whole = {.parser = parse_children,
                               .help_filter = filter_help,
                               .args_doc = argp->args_doc,
                               .doc = argp->doc,
                               .children = children};
    parse_state p = {&command, &common, options};
    command_name = argv[0];
    options->threads = -1;
    int next = argc;
    const error_t failed = argp_parse(&whole, argc, argv, ARGP_NO_HELP | ARGP_NO_ERRS | ARGP_NO_EXIT, &next, &p);
    if (failed) cli_usage_error("options: %s", strerror(failed));
    if (next < argc) cli_usage_error("%s: one argument too many", argv[next]);
    threads_from_environment(options);
}

int cli_pool_open(const cli_options *options, gyre_pool **pool, gyre_exec *exec) {
    gyre_error err = {0, ""};
    if (gyre_pool_create(pool, options->threads, &err)) return cli_fail_error(&err);
    *exec = gyre_pool_exec(*pool);
    return 0;
}

/* -- Ctrl-C -- */
static void on_signal(int number) {
    if (deferred && !interrupted) {
        interrupted = 1;
        return;
    }
    for (int i = 0; i < MAX_OUTPUTS; i++)
        if (output_files[i].has_temporary) (void)unlink(output_files[i].temporary);
    if (copy_pending) (void)unlink(pending_copy);
    if (bar_drawn && write(STDERR_FILENO, ERASE, sizeof ERASE - 1) < 0) {
        /* the terminal is gone: nothing to tidy */
    }
    /* Ending by the signal itself tells a calling script that it was one; it arrives when this handler returns. */
    struct sigaction fatal = {.sa_handler = SIG_DFL};
    (void)sigaction(number, &fatal, NULL);
    (void)raise(number);
}

void cli_install_signal_handlers(void) {
    const int numbers[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        struct sigaction old, action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        (void)sigemptyset(&action.sa_mask);
        (void)sigaddset(&action.sa_mask, SIGINT);
        (void)sigaddset(&action.sa_mask, SIGTERM);
        /* Ignored by whoever started us (a shell's background job): stays ignored. */
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) (void)sigaction(numbers[i], &action, NULL);
    }
    /* A file past the limit (ulimit -f) is then an error of write, told and tidied up after like any other. */
    (void)signal(SIGXFSZ, SIG_IGN);
}

void cli_set_pending_copy(const char *target) {
    copy_pending = 0;
    if (!target) return;
    char *real = realpath(target, NULL); /* the library replaces the file behind a link */
    const int fits = gyre_atomic_temporary_name(pending_copy, real ? real : target, 0);
    free(real);
    copy_pending = fits && access(pending_copy, F_OK) != 0;
}

void cli_defer_signals(void) {
    deferred = 1;
}

int cli_interrupted(void) {
    return interrupted;
}

/* -- runs -- */
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

gyre_status cli_lock_acquire(cli_lock *lock, const char *path, gyre_error *err) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    lock->file = -1;
    if (length + 6 > sizeof lock->path) return gyre_fail(err, GYRE_EINVAL, "path: too long a name (%.200s...)", path);
    snprintf(lock->path, sizeof lock->path, "%.*s.lock", (int)length, path);
    lock->file = open(lock->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock->file < 0) return gyre_fail(err, GYRE_EIO, "folder: cannot be written: %s (%s)", strerror(errno), path);
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(lock->file, F_SETLK, &all) == 0) return GYRE_OK;
    close(lock->file);
    lock->file = -1;
    return gyre_fail(err, GYRE_EIO, "folder: another run is writing it (%s)", path);
}

/* The name goes before the lock: who opens it after that makes a new file. */
void cli_lock_release(cli_lock *lock) {
    if (lock->file < 0) return;
    unlink(lock->path);
    close(lock->file);
    lock->file = -1;
}

/* -- progress -- */
static double seconds_between(const struct timespec *from, const struct timespec *to) {
    return (double)(to->tv_sec - from->tv_sec) + 1e-9 * (double)(to->tv_nsec - from->tv_nsec);
}

void cli_progress_begin(cli_progress *progress, const char *label, const char *unit, int64_t all) {
    *progress = (cli_progress){.unit = unit, .total = all, .enabled = isatty(STDERR_FILENO)};
    (void)pthread_mutex_init(&progress->lock, NULL);
    snprintf(progress->label, sizeof progress->label, "%s", label);
    (void)clock_gettime(CLOCK_MONOTONIC, &progress->started);
    progress->last_drawn = progress->started;
}

void cli_progress_label(cli_progress *progress, const char *format, ...) {
    va_list arguments;
    (void)pthread_mutex_lock(&progress->lock);
    va_start(arguments, format);
    vsnprintf(progress->label, sizeof progress->label, format, arguments);
    va_end(arguments);
    (void)pthread_mutex_unlock(&progress->lock);
}

static void format_duration(double seconds, char out[24]) {
    const long s = seconds < 1e7 ? (long)(seconds + 0.5) : 10000000;
    if (s >= 3600)
        snprintf(out, 24, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, 24, "%ld:%02ld", s / 60, s % 60);
}

/* The first second is quiet: most commands are done by then. */
static void draw(cli_progress *progress) {
    enum { CELLS = 24 };
    struct timespec now;
    if (!progress->enabled || progress->total <= 0 || clock_gettime(CLOCK_MONOTONIC, &now)) return;
    const double elapsed = seconds_between(&progress->started, &now);
    if (elapsed < 1 || seconds_between(&progress->last_drawn, &now) < 0.1) return;
    progress->last_drawn = now;
    double share = (double)progress->done / (double)progress->total;
    if (share > 1) share = 1;
    char bar[CELLS + 1], rate[16], left[24] = "?";
    for (int i = 0; i < CELLS; i++)
        bar[i] = i < (int)(share * CELLS) ? '#' : '.';
    bar[CELLS] = 0;
    if (share > 0) format_duration(elapsed * (1 - share) / share, left);
    fprintf(stderr, "%s%s [%s] %3d%%  %s %s/s  %s left", ERASE, progress->label, bar, (int)(100 * share),
            cli_format_count((double)progress->done / elapsed, rate), progress->unit, left);
    (void)fflush(stderr);
    bar_drawn = 1;
}

void cli_progress_step(void *progress, int64_t step, int64_t all) {
    cli_progress *p = progress;
    (void)all;
    (void)pthread_mutex_lock(&p->lock);
    p->done += step;
    draw(p);
    (void)pthread_mutex_unlock(&p->lock);
}

void cli_progress_set(cli_progress *progress, int64_t done) {
    (void)pthread_mutex_lock(&progress->lock);
    progress->done = done;
    draw(progress);
    (void)pthread_mutex_unlock(&progress->lock);
}

void cli_progress_end(cli_progress *progress) {
    if (bar_drawn) fputs(ERASE, stderr);
    bar_drawn = 0;
    (void)pthread_mutex_destroy(&progress->lock);
}

const char *cli_format_count(double value, char out[16]) {
    static const char *const units[] = {"", "k", "M", "G", "T"};
    int unit = 0;
    for (; value >= 999.5 && unit < 4; unit++)
        value /= 1000;
    snprintf(out, 16, unit && value < 99.95 ? "%.1f%s" : "%.0f%s", value, units[unit]);
    return out;
}

/* -- results -- */
static int same_file(const struct stat *a, const char *path) {
    struct stat b;
    return stat(path, &b) == 0 && a->st_dev == b.st_dev && a->st_ino == b.st_ino;
}

/* out = 1 for what a model's folder is read for. */
static int is_model_name(const char *name) {
    static const char *const ends[] = {GYRE_CONFIG_FILE, ".safetensors", ".index.json", GYRE_TOKENIZER_FILE};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t length = strlen(name), end = strlen(ends[i]);
        if (length >= end && strcmp(name + length - end, ends[i]) == 0) return 1;
    }
    return 0;
}

void cli_check_target(const char *option, const char *target, const char *model) {
    struct stat is;
    char path[PATH_MAX];
    if (!target || !model || stat(target, &is) || !S_ISREG(is.st_mode)) return;
    int own = same_file(&is, model);
    DIR *folder = opendir(model);
    for (struct dirent *entry; !own && folder && (entry = readdir(folder));)
        own = is_model_name(entry->d_name) &&
              snprintf(path, sizeof path, "%s/%s", model, entry->d_name) < (int)sizeof path && same_file(&is, path);
    if (folder) closedir(folder);
    if (own) cli_usage_error("%s: %s is the model's own file", option, target);
}

void cli_check_output(const char *output, const char *model) {
    cli_check_target("--output", output, model);
}

int cli_output_open(cli_output *output, const char *path) {
    *output = (cli_output){stdout, NULL};
    if (!path) return 0;
    gyre_atomic_file *file = &output_files[outputs_open];
    int code = outputs_open < MAX_OUTPUTS ? gyre_atomic_open(file, path) : EMFILE;
    if (!code && !gyre_atomic_stream(file)) {
        code = errno;
        gyre_atomic_discard(file);
    }
    if (code) return cli_fail("%s: %s (--output)", path, strerror(code));
    outputs_open++;
    *output = (cli_output){file->stream, path};
    return 0;
}

static int flush_stdout(void) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return 0;
    return errno ? errno : EIO;
}

int cli_output_close(cli_output *output, int status) {
    const char *path = output->path;
    gyre_atomic_file *file = path ? &output_files[--outputs_open] : NULL;
    *output = (cli_output){NULL, NULL};
    if (status) { /* the command has reported it */
        if (file) gyre_atomic_discard(file);
        return status;
    }
    const int code = file ? gyre_atomic_commit(file) : flush_stdout();
    return code ? cli_fail("%s: %s (writing the result)", path ? path : "standard output", strerror(code)) : 0;
}

int cli_use_color(FILE *file) {
    const char *no_color = getenv("NO_COLOR");
    return isatty(fileno(file)) && !(no_color && *no_color);
}

int cli_json_write(FILE *file, json_t *root) {
    int bad = 1;
    if (root) bad = json_dumpf(root, file, JSON_INDENT(2)) || fputc('\n', file) == EOF;
    if (!root) return cli_fail("JSON: out of memory (result)");
    json_decref(root);
    return bad ? cli_fail("JSON: %s (writing the result)", strerror(errno)) : 0;
}

int cli_json_line(json_t *root) {
    if (!root) return cli_fail("JSON: out of memory (result)");
    const int bad = json_dumpf(root, stdout, JSON_COMPACT) || putchar('\n') == EOF || fflush(stdout);
    json_decref(root);
    return bad ? cli_fail("standard output: %s (writing the result)", strerror(errno)) : 0;
}

json_t *cli_json_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *cli_json_hash(uint64_t hash) {
    return json_sprintf("fnv1a64:%016llx", (unsigned long long)hash);
}
