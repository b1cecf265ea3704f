/* fuzz_reading.c: reads bytes as a description of a model's positions and uses the result in every possible way. */
#include "fuzz_reading.h"

#include "fuzz_reading_laws.h"
#include "fuzz_support.h"

#include "gyre/gyre_model.h"

#include <stdlib.h>
#include <string.h>

static const int64_t lengths[8] = {1, 2, 4096, 4097, 65536, INT64_C(1) << 40, 0, 131072};

static void use_rotation(const gyre_encoding *encoding, int64_t length) {
    const int64_t pairs = gyre_encoding_get_config(encoding)->rope.dim / 2;
    double *inv_freq = malloc((size_t)pairs * sizeof *inv_freq), factor;
    gyre_scaling_parts parts;
    if (!inv_freq) return;
    fuzz_require(!gyre_encoding_frequencies(encoding, length, inv_freq, &factor), "frequencies of an encoding");
    for (int64_t i = 0; i < pairs; i++)
        fuzz_require(inv_freq[i] == inv_freq[i], "a frequency is a number");
    fuzz_require(factor == factor, "an attention factor is a number");
    fuzz_require(!gyre_encoding_scaling_parts(encoding, length, &parts), "parts of a rotation");
    fuzz_require(parts.kept + parts.blended + parts.divided == pairs, "every pair is kept, blended or divided");
    free(inv_freq);
}

static void use_slopes(const gyre_encoding *encoding) {
    double *slopes = malloc((size_t)gyre_encoding_get_config(encoding)->heads * sizeof *slopes);
    if (!slopes) return;
    fuzz_require(!gyre_encoding_slopes(encoding, 0, slopes), "slopes of ALiBi");
    free(slopes);
}

static void use_group(const gyre_layer_reading *group, int64_t length) {
    gyre_encoding *encoding = NULL;
    gyre_error err = {0, ""};
    const gyre_status status = gyre_encoding_create(&encoding, &group->config, NULL, &err);
    fuzz_require(!status || status == GYRE_ENOMEM, "every group that is handed out has an encoding");
    if (!status && group->config.kind == GYRE_KIND_ROPE) {
        use_rotation(encoding, 0);
        use_rotation(encoding, length);
    }
    if (!status && group->config.kind == GYRE_KIND_ALIBI) use_slopes(encoding);
    gyre_encoding_free(encoding);
}

/* -- reading -- */
/* out = the same bytes behind a line feed; a GGUF, which has no such place, from a file that is mapped. */
static gyre_status read_again(gyre_reading **out, const uint8_t *data, size_t size, gyre_profile profile, int64_t length,
                              gyre_error *err) {
    if (size >= 4 && memcmp(data, "GGUF", 4) == 0)
        return gyre_reading_open(out, fuzz_file(data, size),
                                 GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = length), err);
    char *text = fuzz_room(size + 1, 1);
    text[0] = '\n';
    if (size) memcpy(text + 1, data, size);
    const gyre_status status = gyre_reading_parse(
        out, text, size + 1, GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = length, .name = "again"),
        err);
    free(text);
    return status;
}

static void check_again(const gyre_reading *reading, gyre_status status, const uint8_t *data, size_t size,
                        gyre_profile profile, int64_t length) {
    gyre_reading *again = NULL;
    const int marked = size >= 2 && data[0] >= 0xef; /* of a byte order mark behind a line feed another text tells */
    if (marked) return;
    fuzz_require(read_again(&again, data, size, profile, length, NULL) == status, "the same bytes, the same status");
    if (reading) fuzz_check_same_reading(reading, again, strcmp(reading->format, "GGUF") != 0);
    gyre_reading_free(again);
}

static void read_as(const uint8_t *data, size_t size, const char *name, gyre_profile profile, int64_t length) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    const gyre_status status = gyre_reading_parse(
        &reading, data, size, GYRE_ARGS(gyre_reading_options, .profile = profile, .context_length = length, .name = name),
        &err);
    check_again(reading, status, data, size, profile, length);
    if (status) {
        fuzz_require(!reading, "a failure leaves no reading");
        fuzz_require(status == GYRE_EFORMAT || status == GYRE_EUNSUPPORTED || status == GYRE_ENOMEM,
                     "a status of the header");
        fuzz_require(strstr(err.text, ": ") != NULL, "a failure says what, and why");
        fuzz_require(err.offset <= size, "a failure is inside the file");
        return;
    }
    fuzz_require(strcmp(reading->path, name) == 0 && reading->context_length == length, "a reading has what was asked for");
    fuzz_require(profile == GYRE_PROFILE_DEFAULT || reading->profile == profile, "and its profile");
    fuzz_check_reading(reading, data, size);
    for (int64_t i = 0; i < reading->groups_count; i++)
        use_group(reading->groups[i], length);
    gyre_reading_free(reading);
}

void fuzz_reading(const uint8_t *data, size_t size, const char *name) {
    if (size == 0) return;
    const int64_t length = lengths[data[0] >> 3 & 7];
    if (!(data[0] & 64)) {
        read_as(data + 1, size - 1, name, (gyre_profile)(data[0] & 7), length);
        return;
    }
    for (int profile = GYRE_PROFILE_DEFAULT; !profile || gyre_profile_name((gyre_profile)profile); profile++)
        read_as(data + 1, size - 1, name, (gyre_profile)profile, length);
}
