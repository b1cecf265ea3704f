/* explain_text.h: what gyre explain and gyre diff print with: a page of text that knows how wide it is and what its terminal
 * can show, and the words for things that a reading has. */
#ifndef GYRE_TOOLS_EXPLAIN_TEXT_H
#define GYRE_TOOLS_EXPLAIN_TEXT_H
#include "gyre/gyre_model.h"
#include "tools/common/cli.h"

/* -- options that both commands have -- */
/* out = the profile of that name, or cli_usage_error. */
gyre_profile explain_parse_profile(const char *option, const char *text);
enum { EXPLAIN_MAX_LENGTH = 0x7fffffff }; /* --length: positions end at 2^31 */
/* out = 1 where a group is wanted: by its name, or any where layer_type is NULL. */
int explain_is_selected(const gyre_layer_reading *group, const char *layer_type);
/* out = the group of that name, or NULL; reading may be NULL. */
const gyre_layer_reading *explain_find_group(const gyre_reading *reading, const char *name);
/* cli_usage_error, listing what there is, where no group of either reading (NULL: none) has that name.  NULL name: fine. */
void explain_check_layer_type(const char *layer_type, const gyre_reading *one, const gyre_reading *other);

/* -- a page -- */
typedef struct explain_terminal {
    FILE *file;
    int width;  /* columns */
    int styled; /* bold and colour */
    int utf8;   /* block characters */
} explain_terminal;
/* Looks at COLUMNS, the terminal and the locale. */
explain_terminal explain_terminal_open(FILE *file);

typedef enum explain_style {
    EXPLAIN_STYLE_PLAIN,
    EXPLAIN_STYLE_BOLD,
    EXPLAIN_STYLE_DIM,
    EXPLAIN_STYLE_GREEN,
    EXPLAIN_STYLE_YELLOW,
    EXPLAIN_STYLE_CYAN,
    EXPLAIN_STYLE_RED
} explain_style;
/* Text from a file may hold what moves a terminal's cursor: control characters come out as '?'.  out = columns taken. */
int explain_print(const explain_terminal *page, explain_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, then spaces up to `width` columns, and one at least. */
void explain_print_padded(const explain_terminal *page, explain_style style, int width, const char *text);
/* `cells` spaces. */
void explain_print_spaces(const explain_terminal *page, int cells);
/* Broken at spaces: the first line goes on at `column`, the others begin at `indent`.  Ends the line. */
void explain_print_wrapped(const explain_terminal *page, explain_style style, int column, int indent, const char *text);
/* out = columns of text: characters, not bytes. */
int explain_display_width(const char *text);

/* -- words -- */
enum { EXPLAIN_TEXT_SIZE = 48 };
/* out = "6.28", "950", "54.4k", "3.3M", "<0.001": tokens, turns. */
const char *explain_format_amount(double value, char out[EXPLAIN_TEXT_SIZE]);
/* out = "6.28-14.2", or one amount where both read the same. */
const char *explain_format_range(double from, double to, char out[EXPLAIN_TEXT_SIZE]);
/* out = up to `digits` significant digits, no trailing zeros. */
const char *explain_format_number(double value, int digits, char out[EXPLAIN_TEXT_SIZE]);
/* out = "transformers 5", "vLLM": who it is that reads so. */
const char *explain_profile_name(gyre_profile profile);
/* out = "file", "family", "reader", "derived". */
const char *explain_origin_name(gyre_origin origin);
/* Where a value comes from: "rope_scaling.factor, line 15", "default of gemma3", "derived". */
void explain_format_source(const gyre_reading *reading, const gyre_reading_field *field, char *out, size_t size);
/* "KEY, line N"; "" where neither is known. */
void explain_format_location(const char *key, int64_t line, char *out, size_t size);
/* "0-4, 6-10"; longer lists end in an ellipsis. */
void explain_format_layers(const gyre_layer_reading *group, char *out, size_t size);
/* out = 1 where both list one layer; lists rise. */
int explain_layers_overlap(const gyre_layer_reading *a, const gyre_layer_reading *b);
/* out = how many layers the part of the model has that a group belongs to; 0 = the file does not tell. */
int64_t explain_layer_count(const gyre_reading *reading, const gyre_layer_reading *group);
/* out = a string whatever bytes there are: JSON is UTF-8.  NULL text: null. */
json_t *explain_json_text(const char *text);
/* out = the number, null where it is 0. */
json_t *explain_json_nonzero(int64_t value);

#endif
