/* gyre_main.c: the gyre command: finds the subcommand and runs it. */
#include "tools/cli/cli.h"
#include "tools/help/completion_words.h"
#include "tools/help/man_page.h"
#include "tools/subcommands.h"
#include "tools/team/team.h"
#include "util/suggest.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

typedef struct subcommand {
    const char *name, *title; /* title: argv[0] of the subcommand, which help and errors print */
    const char *help;
    int (*run)(int argc, char **argv);
    int shares; /* 1: processes that mpirun starts share the work */
} subcommand;

static const subcommand subcommands[] = {
    {"lab", "gyre lab", "train short, test long: every encoding and every extension, in tables and a report", cmd_lab, 1},
    {"train", "gyre train", "train a small model on a text", cmd_train, 1},
    {"eval", "gyre eval", "perplexity of a model at each context length, under each extension method", cmd_eval, 1},
    {"passkey", "gyre passkey", "whether a model finds a passkey far back in its context, by length and depth", cmd_passkey,
     1},
    {"generate", "gyre generate", "continue a prompt, under an extension method", cmd_generate, 0},
    {"explain", "gyre explain", "which positions a model uses, as one program or another reads them", cmd_explain, 0},
    {"diff", "gyre diff", "where two readings of a model differ, and by how much", cmd_diff, 0},
    {"audit", "gyre audit", "what is wrong about a model's positions: its files compared with each other", cmd_audit, 0},
    {"extend", "gyre extend", "which method to take for a longer context, what it costs, and what to write for it",
     cmd_extend, 0},
    {"convert", "gyre convert", "write a model in another format, type or layout", cmd_convert, 0},
    {"search", "gyre search", "find a factor for each pair of channels by measuring", cmd_search, 1},
    {"shard", "gyre shard", "the memory and messages of each rank of a group, for a long context", cmd_shard, 0},
    {"show", "gyre show", "properties of position encodings, on numbers", cmd_show, 0},
    {"plot", "gyre plot", "figures of position encodings and of results, and the numbers in them", cmd_plot, 0},
    {"explore", "gyre explore", "a page that contains this library: interactive pictures, and a model that reads your text",
     cmd_explore, 0},
#ifdef GYRE_HAVE_BENCH
    {"bench", "gyre bench", "the cost of positions, and the speed of kernels, on this machine", cmd_bench, 0},
#endif
};
enum { SUBCOMMANDS = sizeof subcommands / sizeof *subcommands };

static const subcommand *find(const char *name) {
    for (int i = 0; i < SUBCOMMANDS; i++)
        if (strcmp(subcommands[i].name, name) == 0) return &subcommands[i];
    return NULL;
}

static _Noreturn void unknown(const char *name) {
    const char *names[SUBCOMMANDS];
    for (int i = 0; i < SUBCOMMANDS; i++)
        names[i] = subcommands[i].name;
    const char *nearest = gyre_closest_name(name, names, SUBCOMMANDS);
    if (nearest) cli_usage_error("%s: no such subcommand; did you mean %s?", name, nearest);
    cli_usage_error("%s: no such subcommand", name);
}

static const char question[] = "How far can a model's context be stretched? Position encodings for Transformers, trained, "
                               "measured, compared.";
#define FIRST_STATUSES "0 done, 1 failed, 2 wrong usage"
#define STOPPED        "130 stopped by Ctrl-C, 143 by SIGTERM"
#define DIFF_STATUSES  "3 different, 4 refused"
#define AUDIT_STATUSES "3 found something"
static const char exit_statuses[] =
    FIRST_STATUSES ", " STOPPED "; for diff, " DIFF_STATUSES "; for audit, " AUDIT_STATUSES ".";
static const char example[] = "gyre eval rope --text /usr/share/common-licenses/GPL-3 --methods none,ntk,yarn";

/* out = the exit status. */
static int end_help(void) {
    return fflush(stdout) ? cli_fail("standard output: %s (help)", strerror(errno)) : 0;
}

static int print_help(void) {
    cli_page page;
    FILE *lines = cli_page_begin(&page, stdout);
    fprintf(lines, "Usage: gyre SUBCOMMAND [OPTION...]\n%s\n\n", question);
    for (int i = 0; i < SUBCOMMANDS; i++)
        fprintf(lines, "  %-8s  %s\n", subcommands[i].name, subcommands[i].help);
    fprintf(lines,
            "\n`gyre help SUBCOMMAND` prints its options, `gyre version` the version.\n"
            "Exit status: %s\nExample:\n  %s\n",
            exit_statuses, example);
    cli_page_end(&page);
    return end_help();
}

static int run(const subcommand *command, int argc, char **argv) {
    argv[0] = (char *)command->title;
    return cli_exit_status(cli_stdout_close(cli_json_check(command->run(argc, argv))));
}

/* gyre.1. */
static int print_man_page(void) {
    man_page_begin("gyre", question);
    man_page_section("SYNOPSIS");
    man_page_usage("gyre", "SUBCOMMAND [OPTION...]");
    man_page_section("SUBCOMMANDS");
    for (int i = 0; i < SUBCOMMANDS; i++)
        man_page_item(subcommands[i].title, subcommands[i].help);
    man_page_item("gyre help SUBCOMMAND", "prints the options of a subcommand");
    man_page_item("gyre version", "prints the version");
    man_page_end(exit_statuses, example);
    for (int i = 0; i < SUBCOMMANDS; i++)
        man_page_see(subcommands[i].title, i == SUBCOMMANDS - 1);
    return end_help();
}

static int print_words(void) {
    for (int i = 0; i < SUBCOMMANDS; i++)
        completion_word(subcommands[i].name, subcommands[i].help);
    completion_word("help", "prints the options of a subcommand");
    completion_word("version", "prints the version");
    return end_help();
}

static const char *exit_statuses_of(const subcommand *command) {
    if (command->run == cmd_diff) return FIRST_STATUSES ", " DIFF_STATUSES ", " STOPPED ".";
    if (command->run == cmd_audit) return FIRST_STATUSES ", " AUDIT_STATUSES ", " STOPPED ".";
    return FIRST_STATUSES ", " STOPPED ".";
}

static int man_page_of(const cli_description *description, const void *context) {
    const subcommand *command = context;
    man_page_of_command(description, command->help, exit_statuses_of(command));
    return end_help();
}

static int words_of(const cli_description *description, const void *command) {
    (void)command;
    completion_words_of_command(description);
    return end_help();
}

/* `gyre help --parse SUBCOMMAND ...` runs nothing: out = the exit status of wrong usage, or 0.  For checks of documents. */
static int parse_alone(int argc, char **argv) {
    if (argc < 1) cli_usage_error("help --parse: needs a subcommand");
    const subcommand *command = find(argv[0]);
    if (!command) unknown(argv[0]);
    cli_parse_alone();
    return run(command, argc, argv);
}

/* `gyre help --man [SUBCOMMAND]` prints a man page, `gyre help --words [SUBCOMMAND]` what a shell completes.  For the build
 * and for the completion scripts. */
static int describe(int argc, char **argv) {
    if (strcmp(argv[1], "--parse") == 0) return parse_alone(argc - 2, argv + 2);
    const int man = strcmp(argv[1], "--man") == 0;
    if (!man && strcmp(argv[1], "--words") != 0) cli_usage_error("help %s: no such option", argv[1]);
    if (argc < 3) return man ? print_man_page() : print_words();
    const subcommand *command = find(argv[2]);
    if (!command) unknown(argv[2]);
    cli_parse_describe(man ? man_page_of : words_of, command);
    return run(command, 1, argv);
}

static int help(int argc, char **argv) {
    if (argc < 2) return print_help();
    if (argv[1][0] == '-') return describe(argc, argv);
    const subcommand *command = find(argv[1]);
    if (!command) unknown(argv[1]);
    char flag[] = "--help", *arguments[] = {NULL, flag, NULL};
    return run(command, 2, arguments);
}

static int is_one_of(const char *word, const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(word, names[i]) == 0) return 1;
    return 0;
}

/* A closed standard stream would lend its number to the next file that is opened, and messages would go into a result.
 * It is replaced by a descriptor on which reading or writing fails as on a closed one. */
static void fill_closed_streams(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

int main(int argc, char **argv) {
    fill_closed_streams();
    static const char *const helps[] = {"help", "--help", "-h"}, *const versions[] = {"version", "--version", "-V"};
    cli_install_signal_handlers();
    cli_json_watch_memory();
    if (argc < 2) return print_help();
    if (is_one_of(argv[1], helps, 3)) return help(argc - 1, argv + 1);
    if (is_one_of(argv[1], versions, 3)) {
        printf("gyre %s\n", gyre_version());
        return fflush(stdout) ? cli_fail("standard output: %s (version)", strerror(errno)) : 0;
    }
    if (argv[1][0] == '-') cli_usage_error("%s: no such option", argv[1]);
    const subcommand *command = find(argv[1]);
    if (!command) unknown(argv[1]);
    team_join(command->title, command->shares, argc, argv);
    return team_leave(run(command, argc - 1, argv + 1));
}
