/* fuzz_reading.c: reads bytes as a description of a model's positions and uses the result in every possible way. */
#include "fuzz_reading.h"

#include "fuzz_support.h"

#include "gyre/gyre_model.h"

#include <stdlib.h>
#include <string.h>

static const int64_t lengths[8] = {1, 2, 4096, 4097, 65536, INT64_C(1) << 40, 0, 131072};

/* Reads every byte of a string returned by the library. */
static volatile size_t read_bytes;
static void read_text(const char *text) {
    if (text) read_bytes += strlen(text);
}

static void use_rotation(const gyre_encoding *encoding, int64_t length) {
    const int64_t pairs = gyre_encoding_get_config(encoding)->rope.dim / 2;
    double *inv_freq = malloc((size_t)pairs * sizeof *inv_freq), factor;
    gyre_scaling_parts parts;
    if (!inv_freq) return;
    fuzz_require(gyre_encoding_frequencies(encoding, length, inv_freq, &factor) == GYRE_OK, "frequencies of an encoding");
    for (int64_t i = 0; i < pairs; i++)
        fuzz_require(inv_freq[i] == inv_freq[i], "a frequency is a number");
    fuzz_require(factor == factor, "an attention factor is a number");
    fuzz_require(gyre_encoding_scaling_parts(encoding, length, &parts) == GYRE_OK, "parts of a rotation");
    fuzz_require(parts.kept + parts.blended + parts.divided == pairs, "every pair is kept, blended or divided");
    free(inv_freq);
}

static void use_slopes(const gyre_encoding *encoding) {
    double *slopes = malloc((size_t)gyre_encoding_get_config(encoding)->heads * sizeof *slopes);
    if (!slopes) return;
    fuzz_require(gyre_encoding_slopes(encoding, slopes) == GYRE_OK, "slopes of ALiBi");
    free(slopes);
}

static void use_group(const gyre_layer_reading *group, int64_t length) {
    gyre_encoding *encoding = NULL;
    gyre_error err = {0, ""};
    const gyre_status status = gyre_encoding_create(&encoding, &group->config, NULL, &err);
    fuzz_require(status == GYRE_OK || status == GYRE_ENOMEM, "every group that is handed out has an encoding");
    if (status == GYRE_OK && group->config.kind == GYRE_KIND_ROPE) {
        use_rotation(encoding, 0);
        use_rotation(encoding, length);
    }
    if (status == GYRE_OK && group->config.kind == GYRE_KIND_ALIBI) use_slopes(encoding);
    gyre_encoding_free(encoding);
    read_text(group->name);
    for (int64_t i = 0; i < group->layers_count; i++)
        fuzz_require(group->layers[i] >= 0, "a layer is counted from 0");
    for (int64_t i = 0; i < group->fields_count; i++) {
        const gyre_reading_field *field = &group->fields[i];
        fuzz_require(field->name && field->value, "a field has a name and a value");
        read_text(field->name);
        read_text(field->value);
        read_text(field->key);
        read_text(field->note);
    }
}

void fuzz_reading(const uint8_t *data, size_t size, const char *name) {
    if (size == 0) return;
    const gyre_profile profile = (gyre_profile)(data[0] & 7);
    const int64_t length = lengths[data[0] >> 3 & 7];
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    const gyre_status status = gyre_reading_parse(&reading, data + 1, size - 1, name, profile, length, &err);
    if (status != GYRE_OK) {
        fuzz_require(!reading, "a failure leaves no reading");
        fuzz_require(err.text[0] != '\0', "a failure has a text");
        return;
    }
    fuzz_require(reading->groups_count >= 1, "a reading has a group");
    fuzz_require(reading->profile != GYRE_PROFILE_DEFAULT, "a reading says whose it is");
    for (int64_t i = 0; i < reading->groups_count; i++)
        use_group(reading->groups[i], length);
    for (int64_t i = 0; i < reading->warnings_count; i++) {
        fuzz_require(reading->warnings[i].text != NULL, "a warning has a text");
        read_text(reading->warnings[i].text);
        read_text(reading->warnings[i].key);
    }
    read_text(reading->path);
    read_text(reading->format);
    read_text(reading->model_type);
    gyre_reading_free(reading);
}
