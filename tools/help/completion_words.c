/* completion_words.c: the options of a command and what each takes, from the option's own table entry. */
#include "tools/help/completion_words.h"
#include "gyre/gyre_reading.h"
#include "tools/common/methods.h"
#include "tools/help/option_order.h"
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
    for (int i = GYRE_PROFILE_DEFAULT + 1; gyre_profile_name((gyre_profile)i); i++)
        printf("%s%s", i > GYRE_PROFILE_DEFAULT + 1 ? " " : "", gyre_profile_name((gyre_profile)i));
}

/* Prints TAKES and CHOICES of an option or, with name NULL, of an argument. */
static void print_value(const char *name, const char *value) {
    static const char *const files[] = {"FILE", "PATH", "MODEL", "CONFIG", "[CONFIG]", "A", "B", NULL},
                             *const folders[] = {"DIR", NULL}, *const methods[] = {"method", "methods", "add-method", NULL};
    if (!value)
        fputs("none\t", stdout);
    else if (is_one_of(value, files))
        fputs("file\t", stdout);
    else if (is_one_of(value, folders))
        fputs("folder\t", stdout);
    else if (name && is_one_of(name, methods)) {
        printf("%s\t", strcmp(value, "LIST") == 0 ? "list" : "word");
        print_split(METHOD_NAMES, ", ");
    } else if (lists_choices(value)) {
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

void completion_word(const char *word, const char *help) {
    printf("%s\tnone\t\t%s\n", word, help);
}

void completion_words_of_command(const cli_description *command) {
    const struct argp_option *options[OPTION_ORDER_MAX];
    const int count = option_order(command, options);
    for (int i = 0; i < count; i++) {
        if (!options[i]->name) continue;
        char word[64];
        snprintf(word, sizeof word, "--%s", options[i]->name);
        print_row(word, options[i]->name, options[i]->arg, options[i]->doc);
        snprintf(word, sizeof word, "-%c", options[i]->key);
        if (options[i]->key > 32 && options[i]->key < 127)
            print_row(word, options[i]->name, options[i]->arg, options[i]->doc);
    }
    char first[128];
    const size_t length = strcspn(command->arguments, " ");
    snprintf(first, sizeof first, "%.*s", (int)(length < sizeof first ? length : 0), command->arguments);
    if (*first && *first != '-') print_row("-", NULL, first, "");
}
