/* explain_text.h: what gyre explain and gyre diff print with: a page of text that knows how wide it is and what its terminal
 * can show, and the words for things that a reading has. */
#ifndef GYRE_TOOLS_EXPLAIN_TEXT_H
#define GYRE_TOOLS_EXPLAIN_TEXT_H
#include "gyre/gyre_model.h"
#include "tools/common/cli.h"

/* -- options that both commands have --------------------------------------------------------------------------------------
 */
/* out = the profile of that name, or cli_usage. */
gyre_profile explain_profile(const char *option, const char *text);
enum { EXPLAIN_MOST_LENGTH = 0x7fffffff }; /* --length: positions end at 2^31 */
/* out = 1 where a group is wanted: by its name, or any where layer_type is NULL. */
int explain_wanted(const gyre_layer_reading *group, const char *layer_type);
/* out = the group of that name, or NULL; reading may be NULL. */
const gyre_layer_reading *explain_group_named(const gyre_reading *reading, const char *name);
/* cli_usage, listing what there is, where no group of either reading (NULL: none) has that name.  NULL name: fine. */
void explain_check_layer_type(const char *layer_type, const gyre_reading *one, const gyre_reading *other);

/* -- a page ---------------------------------------------------------------------------------------------------------------
 */
typedef struct explain_page {
    FILE *file;
    int width;  /* columns */
    int styled; /* bold and colour */
    int utf8;   /* block characters */
} explain_page;
/* Looks at COLUMNS, the terminal and the locale. */
explain_page explain_page_on(FILE *file);

typedef enum explain_style {
    EXPLAIN_PLAIN,
    EXPLAIN_BOLD,
    EXPLAIN_DIM,
    EXPLAIN_GREEN,
    EXPLAIN_YELLOW,
    EXPLAIN_CYAN,
    EXPLAIN_RED
} explain_style;
/* Text from a file may hold what moves a terminal's cursor: control characters come out as '?'.  out = columns taken. */
int explain_put(const explain_page *page, explain_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, then spaces up to `width` columns, and one at least. */
void explain_cell(const explain_page *page, explain_style style, int width, const char *text);
/* `cells` spaces. */
void explain_space(const explain_page *page, int cells);
/* Broken at spaces: the first line goes on at `column`, the others begin at `indent`.  Ends the line. */
void explain_wrap(const explain_page *page, explain_style style, int column, int indent, const char *text);
/* out = columns of text: characters, not bytes. */
int explain_columns(const char *text);

/* -- words ----------------------------------------------------------------------------------------------------------------
 */
enum { EXPLAIN_SHORT = 48 };
/* out = "6.28", "950", "54.4k", "3.3M", "<0.001": tokens, turns. */
const char *explain_amount(double value, char out[EXPLAIN_SHORT]);
/* out = "6.28-14.2", or one amount where both read the same. */
const char *explain_amounts(double from, double to, char out[EXPLAIN_SHORT]);
/* out = up to `digits` significant digits, no trailing zeros. */
const char *explain_number(double value, int digits, char out[EXPLAIN_SHORT]);
/* out = "transformers 5", "vLLM": who it is that reads so. */
const char *explain_program(gyre_profile profile);
/* out = "file", "family", "reader", "derived". */
const char *explain_origin(gyre_origin origin);
/* Where a value comes from: "rope_scaling.factor, line 15", "default of gemma3", "derived". */
void explain_source(const gyre_reading *reading, const gyre_reading_field *field, char *out, size_t size);
/* "KEY, line N"; "" where neither is known. */
void explain_place(const char *key, int64_t line, char *out, size_t size);
/* "0-4, 6-10"; longer lists end in an ellipsis. */
void explain_layers(const gyre_layer_reading *group, char *out, size_t size);
/* out = 1 where both list one layer; lists rise. */
int explain_share_layer(const gyre_layer_reading *a, const gyre_layer_reading *b);
/* out = how many layers the part of the model has that a group belongs to; 0 = the file does not tell. */
int64_t explain_layers_of(const gyre_reading *reading, const gyre_layer_reading *group);
/* out = a string whatever bytes there are: JSON is UTF-8.  NULL text: null. */
json_t *explain_json_text(const char *text);
/* out = the number, null where it is 0. */
json_t *explain_json_known(int64_t value);

#endif
