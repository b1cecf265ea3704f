/* man_page.c: writes roff.  The date is the version's: the same source gives the same bytes. */
#include "tools/help/man_page.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The day of this version in debian/changelog; ci/run completion compares them. */
#define VERSION_DATE "2026-11-22"

/* -- text -- */
/* Prints text[0 .. length - 1] so that roff changes no character of it. */
static void print_text(const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        if (c == '\\')
            fputs("\\(rs", stdout);
        else if (c == '-')
            fputs("\\-", stdout);
        else if (c == '^')
            fputs("\\(ha", stdout);
        else if (c == '~')
            fputs("\\(ti", stdout);
        else if (c == '`')
            fputs("\\(ga", stdout);
        else if (c == '\'')
            fputs("\\(aq", stdout);
        else
            putchar(c);
    }
}

/* Prints a separate line.  A dot at its start would be a request. */
static void print_line(const char *text, size_t length) {
    if (length && text[0] == '.') fputs("\\&", stdout);
    print_text(text, length);
    putchar('\n');
}

/* A new sentence begins on a new line, as roff wants it. */
static void print_sentences(const char *text, size_t length) {
    size_t start = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] != '.' || i + 2 >= length || text[i + 1] != ' ') continue;
        size_t next = i + 1;
        while (next < length && text[next] == ' ')
            next++;
        if (next == length || !isupper((unsigned char)text[next])) continue;
        print_line(text + start, i + 1 - start);
        start = next;
        i = next - 1;
    }
    if (start < length) print_line(text + start, length - start);
}

static void print_paragraph(const char *text) {
    print_sentences(text, strlen(text));
}

static void print_upper(const char *title) {
    for (; *title; title++) {
        if (*title == ' ')
            fputs("\\-", stdout);
        else
            putchar(toupper((unsigned char)*title));
    }
}

static void print_page_name(const char *title) {
    for (; *title; title++) {
        if (*title == ' ')
            fputs("\\-", stdout);
        else
            putchar(*title);
    }
}

/* -- parts -- */
void man_page_begin(const char *title, const char *summary) {
    fputs(".TH ", stdout);
    print_upper(title);
    printf(" 1 \"" VERSION_DATE "\" \"gyre %s\"\n.SH NAME\n", gyre_version());
    print_page_name(title);
    fputs(" \\- ", stdout);
    print_text(summary, strlen(summary));
    putchar('\n');
}

void man_page_section(const char *name) {
    printf(".SH %s\n", name);
}

void man_page_usage(const char *title, const char *arguments) {
    fputs("\\fB", stdout);
    print_text(title, strlen(title));
    fputs("\\fR ", stdout);
    print_line(arguments, strlen(arguments));
}

void man_page_item(const char *name, const char *text) {
    fputs(".TP\n\\fB", stdout);
    print_text(name, strlen(name));
    fputs("\\fR\n", stdout);
    print_paragraph(text);
}

static void print_environment(void) {
    static const struct {
        const char *names, *text;
    } variables[] = {
        {"GYRE_THREADS", "The number of threads where --threads is not given; 0 = one per processor."},
        {"GYRE_CPU", "The highest instruction set to use, such as avx2 or scalar (default: the best of the processor). One "
                     "that Gyre does not "
                     "know, or that the processor lacks, is refused."},
        {"GYRE_EXPLORER", "The page that gyre explore opens and copies (default: the installed one)."},
        {"GYRE_RANK_TIMEOUT",
         "Seconds without a sign of a rank after which a run over MPI ends (default: 60). Only a gyre that "
         "was built with MPI reads it."},
        {"HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE",
         "The local Hugging Face cache, in which ORG/NAME is looked up; the first that is set. Nothing is downloaded."},
        {"HF_HOME", "The folder whose folder hub is that cache, where neither of them is set."},
        {"XDG_CACHE_HOME",
         "The folder whose folder huggingface/hub is that cache, where HF_HOME is not set either (default: "
         "~/.cache)."},
        {"COLUMNS", "The width of what explain prints, in columns (default, and for 0: that of the terminal, else 100)."},
        {"TMPDIR", "Where folders for what a command tries out are made (default: /tmp)."},
        {"NO_COLOR", "Anything but an empty text: no colours on a terminal."},
    };
    man_page_section("ENVIRONMENT");
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        man_page_item(variables[i].names, variables[i].text);
}

void man_page_end(const char *exit_statuses, const char *example) {
    man_page_section("EXIT STATUS");
    print_paragraph(exit_statuses);
    print_environment();
    if (example) {
        fputs(".SH EXAMPLES\n.nf\n", stdout);
        print_line(example, strlen(example));
        fputs(".fi\n", stdout);
    }
    man_page_section("SEE ALSO");
}

void man_page_see(const char *title, int is_last) {
    fputs(".BR ", stdout);
    print_page_name(title);
    printf(" (1)%s\n", is_last ? "" : ",");
}

/* -- options -- */
static void print_option(const cli_option *option) {
    fputs(".TP\n", stdout);
    if (option->letter) printf("\\fB\\-%c\\fR, ", option->letter);
    fputs("\\fB\\-\\-", stdout);
    print_text(option->name, strlen(option->name));
    fputs("\\fR", stdout);
    if (option->argument) {
        fputs("=\\fI", stdout);
        print_text(option->argument, strlen(option->argument));
        fputs("\\fR", stdout);
    }
    putchar('\n');
    print_paragraph(option->help);
}

static void print_options(const cli_description *command) {
    man_page_section("OPTIONS");
    for (int i = 0; i < command->count; i++) {
        if (command->rows[i]->name)
            print_option(command->rows[i]);
        else
            printf(".SS %s\n", command->rows[i]->help);
    }
}

/* -- the text after the options -- */
/* out = the number of bytes of the word that begins an example, else 0. */
static size_t example_word(const char *line) {
    static const char *const words[] = {"Examples:", "Example:"};
    for (int i = 0; i < 2; i++)
        if (strncmp(line, words[i], strlen(words[i])) == 0) return strlen(words[i]);
    return 0;
}

static void set_filled(int *is_filled, int filled) {
    if (*is_filled != filled) fputs(filled ? ".fi\n" : ".nf\n", stdout);
    *is_filled = filled;
}

/* Examples and lines that are indented are printed as they are, without their indent. */
static void print_lines(const char *text) {
    int is_filled = 1, examples = 0;
    for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        const size_t word = example_word(line), indent = strspn(line + word, " ");
        const char *start = line + word + indent;
        if (word && !examples) {
            set_filled(&is_filled, 1);
            man_page_section("EXAMPLES");
            examples = 1;
        }
        if (start == end) {
            if (!examples && end[0] && end[1] && !example_word(end + 1)) {
                set_filled(&is_filled, 1);
                fputs(".PP\n", stdout);
            }
            continue;
        }
        set_filled(&is_filled, !examples && !indent);
        if (is_filled)
            print_sentences(start, (size_t)(end - start));
        else
            print_line(start, (size_t)(end - start));
    }
    set_filled(&is_filled, 1);
}

void man_page_of_command(const cli_description *command, const char *summary, const char *exit_statuses) {
    const char *more = strchr(command->text, '\v');
    const size_t intro = more ? (size_t)(more - command->text) : strlen(command->text);
    man_page_begin(command->title, summary);
    man_page_section("SYNOPSIS");
    char usage[256];
    snprintf(usage, sizeof usage, "[OPTION...] %s", command->arguments);
    man_page_usage(command->title, usage);
    man_page_section("DESCRIPTION");
    print_sentences(command->text, intro);
    print_options(command);
    if (more) {
        if (!example_word(more + 1)) man_page_section("NOTES");
        print_lines(more + 1);
    }
    man_page_end(exit_statuses, NULL);
    man_page_see("gyre", 1);
}
