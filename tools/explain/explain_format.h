/* explain_format.h: short texts for numbers, sources and layers, used by gyre explain and gyre diff. */
#ifndef GYRE_TOOLS_EXPLAIN_FORMAT_H
#define GYRE_TOOLS_EXPLAIN_FORMAT_H
#include "gyre/gyre_fields.h"
#include "gyre/gyre_model.h"

enum { EXPLAIN_TEXT_SIZE = 48 };
/* out = "6.28", "950", "54.4k", "3.3M", "<0.001": tokens, revolutions. */
const char *explain_format_amount(double value, char out[EXPLAIN_TEXT_SIZE]);
/* out = "6.28-14.2", or one amount if both read the same. */
const char *explain_format_range(double from, double to, char out[EXPLAIN_TEXT_SIZE]);
/* out = up to `digits` significant digits, without trailing zeros. */
const char *explain_format_number(double value, int digits, char out[EXPLAIN_TEXT_SIZE]);
/* Writes the value of a field: its spelling, "true", "query and key" or a number. */
void explain_format_value(const gyre_config_field *f, gyre_field_value value, char out[EXPLAIN_TEXT_SIZE]);
/* out = the program of a profile: "transformers 5", "vLLM". */
const char *explain_profile_name(gyre_profile profile);
/* out = "file", "family", "reader", "derived". */
const char *explain_origin_name(gyre_origin origin);
/* Writes where a value comes from: "rope_scaling.factor, line 15", "default of gemma3", "derived". */
void explain_format_source(const gyre_reading *reading, const gyre_reading_field *field, char *out, size_t size);
/* Writes "KEY, line N"; "" if neither is known. */
void explain_format_location(const char *key, int64_t line, char *out, size_t size);

/* -- layers -- */
/* Writes "0-4, 6-10"; a list that is too long ends in an ellipsis. */
void explain_format_layers(const gyre_layer_reading *group, char *out, size_t size);
/* out = 1 if both groups contain a common layer.  Their lists rise. */
int explain_layers_overlap(const gyre_layer_reading *a, const gyre_layer_reading *b);
/* out = layers of the part of the model that the group belongs to; 0 = the file does not state it. */
int64_t explain_layer_count(const gyre_reading *reading, const gyre_layer_reading *group);

#endif
