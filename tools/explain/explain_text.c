/* explain_text.c: printing for people: width, colour, ranges, amounts, and where a value comes from. */
/* For TIOCGWINSZ. */
#define _DEFAULT_SOURCE // NOLINT(bugprone-reserved-identifier): its name is given
#include "tools/explain/explain_text.h"
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* -- options that both commands have -- */
gyre_profile explain_parse_profile(const char *option, const char *text) {
    const char *names[16];
    int count = 0;
    for (; count < 16 && gyre_profile_name((gyre_profile)(GYRE_PROFILE_DEFAULT + 1 + count)); count++)
        names[count] = gyre_profile_name((gyre_profile)(GYRE_PROFILE_DEFAULT + 1 + count));
    return (gyre_profile)(GYRE_PROFILE_DEFAULT + 1 + cli_choice(option, text, names, count));
}

int explain_is_selected(const gyre_layer_reading *group, const char *layer_type) {
    return !layer_type || strcmp(group->name, layer_type) == 0;
}

const gyre_layer_reading *explain_find_group(const gyre_reading *reading, const char *name) {
    for (int64_t i = 0; reading && i < reading->groups_count; i++)
        if (strcmp(reading->groups[i].name, name) == 0) return &reading->groups[i];
    return NULL;
}

void explain_check_layer_type(const char *layer_type, const gyre_reading *one, const gyre_reading *other) {
    char known[512] = "";
    size_t used = 0;
    if (!layer_type || explain_find_group(one, layer_type) || explain_find_group(other, layer_type)) return;
    for (int r = 0; r < 2; r++) {
        const gyre_reading *reading = r ? other : one;
        for (int64_t i = 0; reading && i < reading->groups_count && used < sizeof known; i++)
            if (!r || !explain_find_group(one, reading->groups[i].name))
                used +=
                    (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", reading->groups[i].name);
    }
    cli_usage_error("--layer-type: \"%s\" is none of %s", layer_type, known);
}

/* -- a page -- */
enum { DEFAULT_WIDTH = 100, MIN_WIDTH = 72, MAX_WIDTH = 160 };

static int terminal_width(FILE *file) {
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    int width = columns ? atoi(columns) : 0; // NOLINT(cert-err34-c): what is no number is 0
    if (width <= 0 && isatty(fileno(file)) && ioctl(fileno(file), TIOCGWINSZ, &size) == 0) width = size.ws_col;
    if (width <= 0) width = DEFAULT_WIDTH;
    return width < MIN_WIDTH ? MIN_WIDTH : width > MAX_WIDTH ? MAX_WIDTH : width;
}

explain_terminal explain_terminal_open(FILE *file) {
    (void)setlocale(LC_CTYPE, "");
    return (explain_terminal){file, terminal_width(file), cli_use_color(file), strcmp(nl_langinfo(CODESET), "UTF-8") == 0};
}

int explain_display_width(const char *text) {
    int columns = 0;
    for (; *text; text++)
        columns += ((unsigned char)*text & 0xC0) != 0x80;
    return columns;
}

/* The text and its columns, control characters replaced. */
static int print_sanitized(const explain_terminal *page, explain_style style, char *text) {
    static const char *const codes[] = {"", "1", "2", "32", "33", "36", "31"};
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
    const int dressed = page->styled && style != EXPLAIN_STYLE_PLAIN && *text;
    if (dressed) fprintf(page->file, "\033[%sm", codes[style]);
    fputs(text, page->file);
    if (dressed) fputs("\033[0m", page->file);
    return explain_display_width(text);
}

int explain_print(const explain_terminal *page, explain_style style, const char *format, ...) {
    char text[8192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return print_sanitized(page, style, text);
}

void explain_print_spaces(const explain_terminal *page, int cells) {
    if (cells > 0) fprintf(page->file, "%*s", cells, "");
}

void explain_print_padded(const explain_terminal *page, explain_style style, int width, const char *text) {
    const int taken = explain_print(page, style, "%s", text);
    explain_print_spaces(page, taken < width ? width - taken : 1);
}

/* out = bytes of the next piece that stays together: a word, or as much of it up to a dot as fits in `room` columns. */
static size_t next_line_break(const char *text, int room) {
    const size_t word = strcspn(text, " ");
    size_t piece = word, fits = 0;
    int columns = 0;
    for (size_t i = 0; i < word; i++) {
        columns += ((unsigned char)text[i] & 0xC0) != 0x80;
        if (columns <= room && text[i] == '.') fits = i + 1;
    }
    if (columns > room && fits > 0) piece = fits;
    return piece < 500 ? piece : 500;
}

void explain_print_wrapped(const explain_terminal *page, explain_style style, int column, int indent, const char *text) {
    char word[512];
    int begins = 1, spaces = 0; /* of a line; before the word */
    while (*text) {
        const size_t length = next_line_break(text, page->width - indent);
        memcpy(word, text, length);
        word[length] = 0;
        const int columns = explain_display_width(word);
        if (!begins && column + spaces + columns > page->width) {
            fputc('\n', page->file);
            explain_print_spaces(page, column = indent);
            spaces = 0;
        }
        if (spaces) fputc(' ', page->file);
        column += spaces + explain_print(page, style, "%s", word);
        text += length;
        spaces = *text == ' ';
        text += strspn(text, " ");
        begins = 0;
    }
    fputc('\n', page->file);
}

/* -- words -- */
const char *explain_format_amount(double value, char out[EXPLAIN_TEXT_SIZE]) {
    char amount[16];
    if (!isfinite(value))
        snprintf(out, EXPLAIN_TEXT_SIZE, "none");
    else if (fabs(value) >= 999.5e12)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%.2g", value);
    else if (fabs(value) >= 99.95)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%s", cli_format_count(value, amount));
    else if (fabs(value) >= 0.01)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%.3g", value);
    else if (fabs(value) >= 0.001 || value == 0)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%.1g", value);
    else
        snprintf(out, EXPLAIN_TEXT_SIZE, "<0.001");
    return out;
}

const char *explain_format_range(double from, double to, char out[EXPLAIN_TEXT_SIZE]) {
    char first[EXPLAIN_TEXT_SIZE], last[EXPLAIN_TEXT_SIZE];
    explain_format_amount(from, first);
    explain_format_amount(to, last);
    if (strcmp(first, last) == 0)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%s", first);
    else
        snprintf(out, EXPLAIN_TEXT_SIZE, "%.20s-%.20s", first, last);
    return out;
}

const char *explain_format_number(double value, int digits, char out[EXPLAIN_TEXT_SIZE]) {
    if (value == floor(value) && fabs(value) < 1e15)
        snprintf(out, EXPLAIN_TEXT_SIZE, "%.0f", value);
    else
        snprintf(out, EXPLAIN_TEXT_SIZE, "%.*g", digits, value);
    return out;
}

const char *explain_profile_name(gyre_profile profile) {
    switch (profile) {
    case GYRE_PROFILE_HF_5:
        return "transformers 5";
    case GYRE_PROFILE_HF_4_56:
        return "transformers 4.56";
    case GYRE_PROFILE_HF_4_51:
        return "transformers 4.51";
    case GYRE_PROFILE_HF_4_43:
        return "transformers 4.43";
    case GYRE_PROFILE_VLLM:
        return "vLLM";
    case GYRE_PROFILE_REFERENCE:
        return "the papers";
    default:
        return gyre_profile_name(profile) ? gyre_profile_name(profile) : "usual";
    }
}

const char *explain_origin_name(gyre_origin origin) {
    static const char *const names[] = {"file", "family", "reader", "derived"};
    return (unsigned)origin < 4 ? names[origin] : "unknown";
}

void explain_format_location(const char *key, int64_t line, char *out, size_t size) {
    char number[32] = "";
    if (line > 0) snprintf(number, sizeof number, "%sline %" PRId64, key && *key ? ", " : "", line);
    snprintf(out, size, "%.400s%s", key ? key : "", number);
}

void explain_format_source(const gyre_reading *reading, const gyre_reading_field *field, char *out, size_t size) {
    char place[480];
    explain_format_location(field->key, field->line, place, sizeof place);
    const char *program = explain_profile_name(reading->profile), *family = reading->model_type;
    const char *open = *place ? " (" : "", *close = *place ? ")" : "";
    switch (field->origin) {
    case GYRE_ORIGIN_FILE:
        snprintf(out, size, "%s", *place ? place : "the file");
        break;
    case GYRE_ORIGIN_FAMILY:
        snprintf(out, size, "default of %.100s%s%s%s", *family ? family : "the family", open, place, close);
        break;
    case GYRE_ORIGIN_READER:
        snprintf(out, size, "default of %s%s%s%s", program, open, place, close);
        break;
    default:
        snprintf(out, size, "derived%s%s%s", open, place, close);
    }
}

/* -- layers -- */
void explain_format_layers(const gyre_layer_reading *group, char *out, size_t size) {
    size_t used = 0;
    out[0] = 0;
    for (int64_t i = 0, last; i < group->layers_count; i = last + 1) {
        for (last = i; last + 1 < group->layers_count && group->layers[last + 1] == group->layers[last] + 1;)
            last++;
        char range[64];
        const char *comma = i ? ", " : "";
        if (last > i)
            snprintf(range, sizeof range, "%s%" PRId64 "-%" PRId64, comma, group->layers[i], group->layers[last]);
        else
            snprintf(range, sizeof range, "%s%" PRId64, comma, group->layers[i]);
        if (used + strlen(range) + sizeof ", ..." > size) {
            snprintf(out + used, size - used, ", ...");
            return;
        }
        used += (size_t)snprintf(out + used, size - used, "%s", range);
    }
}

int explain_layers_overlap(const gyre_layer_reading *a, const gyre_layer_reading *b) {
    for (int64_t i = 0, j = 0; i < a->layers_count && j < b->layers_count;) {
        if (a->layers[i] == b->layers[j]) return 1;
        if (a->layers[i] < b->layers[j])
            i++;
        else
            j++;
    }
    return 0;
}

/* Groups that share a number belong to different stacks: the towers of a model each count from 0. */
int64_t explain_layer_count(const gyre_reading *reading, const gyre_layer_reading *group) {
    int64_t count = group->layers_count;
    for (int64_t i = 0; count > 0 && i < reading->groups_count; i++)
        if (&reading->groups[i] != group && !explain_layers_overlap(&reading->groups[i], group))
            count += reading->groups[i].layers_count;
    return count;
}

/* -- JSON -- */
json_t *explain_json_text(const char *text) {
    if (!text) return json_null();
    json_t *string = json_string(text);
    if (string) return string;
    char *plain = strdup(text);
    for (char *c = plain; c && *c; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    string = plain ? json_string(plain) : NULL;
    free(plain);
    return string;
}

json_t *explain_json_nonzero(int64_t value) {
    return value ? json_integer(value) : json_null();
}
