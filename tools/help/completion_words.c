/* completion_words.c: the options of a command and what each takes, from the option's own table entry. */
#include "tools/help/completion_words.h"
#include "gyre/gyre_reading.h"
#include "tools/common/methods.h"
#include "tools/common/variants.h"
#include "tools/options/value_names.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static int is_one_of(const char *word, const char *const *words) {
    for (; *words; words++)
        if (strcmp(word, *words) == 0) return 1;
    return 0;
}

/* "a|b|c" lists its choices, all in small letters; NAME and N|LIST do not. */
static int lists_choices(const char *value) {
    int bars = 0;
    for (; *value; value++) {
        if (isupper((unsigned char)*value)) return 0;
        bars += *value == '|';
    }
    return bars > 0;
}

/* Prints words separated by a space; separators: the characters between them in `words`. */
static void print_split(const char *words, const char *separators) {
    for (const char *at = words; *at;) {
        const size_t length = strcspn(at, separators);
        printf("%s%.*s", at == words ? "" : " ", (int)length, at);
        at += length;
        at += strspn(at, separators);
    }
}

static void print_profiles(void) {
    for (int i = GYRE_PROFILE_DEFAULT + 1; gyre_profile_name((gyre_profile)i); i++) {
        const char *alias = gyre_profile_alias((gyre_profile)i);
        printf("%s%s", i > GYRE_PROFILE_DEFAULT + 1 ? " " : "", gyre_profile_name((gyre_profile)i));
        if (alias) printf(" %s", alias);
    }
}

static void print_encodings(int is_list) {
    char names[VARIANT_LIST];
    variants_list(names);
    print_split(names, ", ");
    if (is_list) fputs(" all", stdout);
}

static void print_length_policies(void) {
    for (int i = 0; i <= LENGTH_POLICIES; i++)
        printf("%s%s", i ? " " : "", length_policy_choices()[i]);
}

/* out = 1 and the choices are printed if --name takes names that a table of the command holds. */
static int print_named_choices(const char *name, int is_list) {
    static const char *const methods[] = {"method", "methods", "add-method", NULL}, *const encodings[] = {"encoding",
                                                                                                          "encodings", NULL};
    const int is_method = is_one_of(name, methods), is_encoding = is_one_of(name, encodings),
              is_policy = is_list && strcmp(name, "length-policy") == 0;
    if (!is_method && !is_encoding && !is_policy) return 0;
    fputs(is_list ? "list\t" : "word\t", stdout);
    if (is_method) print_split(METHOD_NAMES, ", ");
    if (is_encoding) print_encodings(is_list);
    if (is_policy) print_length_policies();
    return 1;
}

/* Prints TAKES and CHOICES of an option or, with name NULL, of an argument. */
static void print_value(const char *name, const char *value) {
    static const char *const files[] = {"FILE", "PATH", "MODEL", "CONFIG",          "[CONFIG]",
                                        "A",    "B",    "[B]",   "[MODEL|FILE...]", NULL},
                             *const folders[] = {"DIR", NULL};
    const int is_list = value && strcmp(value, "LIST") == 0;
    if (!value)
        fputs("none\t", stdout);
    else if (is_one_of(value, files))
        fputs("file\t", stdout);
    else if (is_one_of(value, folders))
        fputs("folder\t", stdout);
    else if (name && print_named_choices(name, is_list))
        return;
    else if (lists_choices(value)) {
        fputs("word\t", stdout);
        print_split(value, "|");
    } else if (strcmp(value, "PROFILE") == 0) {
        fputs("word\t", stdout);
        print_profiles();
    } else
        printf("%s\t", strstr(value, "LIST") ? "list" : "word");
}

/* The first sentence, up to a parenthesis, without tabs. */
static void print_brief(const char *help) {
    for (const char *at = help; *at; at++) {
        if (strchr(".;", *at) && (at[1] == ' ' || !at[1])) break;
        if (*at == ' ' && at[1] == '(') break;
        putchar(*at == '\t' || *at == '\n' ? ' ' : *at);
    }
}

static void print_row(const char *word, const char *name, const char *value, const char *help) {
    printf("%s\t", word);
    print_value(name, value);
    putchar('\t');
    print_brief(help);
    putchar('\n');
}

/* Prints the words that --help lists below "NAME is one of:", a line each with its meaning; nothing without such a list. */
static void print_listed(const char *name, const char *text) {
    char heading[160];
    snprintf(heading, sizeof heading, "\n%s is one of:\n", name);
    const char *at = strstr(text, heading);
    if (!at) return;
    at += strlen(heading);
    for (const char *space = ""; *at == ' '; space = " ") {
        at += strspn(at, " ");
        printf("%s%.*s", space, (int)strcspn(at, " \n"), at);
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
}

/* A row for each argument, up to the first option that the command asks for. */
static void print_arguments(const cli_description *command) {
    for (const char *at = command->arguments; *at && *at != '-';) {
        char value[128];
        const size_t length = strcspn(at, " ");
        snprintf(value, sizeof value, "%.*s", (int)length, at);
        fputs("-\t", stdout);
        print_value(NULL, value);
        print_listed(value, command->text);
        fputs("\t\n", stdout);
        at += length;
        at += strspn(at, " ");
    }
}

void completion_word(const char *word, const char *help) {
    printf("%s\tnone\t\t%s\n", word, help);
}

void completion_words_of_command(const cli_description *command) {
    for (int i = 0; i < command->count; i++) {
        const cli_option *o = command->rows[i];
        char word[64];
        if (!o->name) continue;
        snprintf(word, sizeof word, "--%s", o->name);
        print_row(word, o->name, o->argument, o->help);
        snprintf(word, sizeof word, "-%c", o->letter);
        if (o->letter) print_row(word, o->name, o->argument, o->help);
    }
    print_arguments(command);
}
