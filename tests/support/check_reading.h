/* check_reading.h: reads a config.json given as a string, or expects it to be refused. */
#ifndef GYRE_TESTS_CHECK_READING_H
#define GYRE_TESTS_CHECK_READING_H
#include "check_reading_fields.h"
#include "gyre/gyre_model.h"

static inline gyre_reading *read_as(const char *text, gyre_profile profile) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    if (gyre_reading_parse(&reading, text, strlen(text),
                           GYRE_ARGS(gyre_reading_options, .profile = profile, .name = "config.json"), &err))
        fail_msg("%s\n%s", err.text, text);
    return reading;
}
/* As the default profile does. */
static inline gyre_reading *read_text(const char *text) {
    return read_as(text, GYRE_PROFILE_DEFAULT);
}

/* Fails unless reading fails with this status and a message that contains `words`. */
static inline void assert_refused(const char *text, gyre_profile profile, gyre_status status, const char *words) {
    gyre_reading *reading = NULL;
    gyre_error err = {0, ""};
    const gyre_status got = gyre_reading_parse(
        &reading, text, strlen(text), GYRE_ARGS(gyre_reading_options, .profile = profile, .name = "config.json"), &err);
    if (!got) fail_msg("taken: %s", text);
    if (!strstr(err.text, words)) fail_msg("\"%s\" lacks \"%s\"", err.text, words);
    assert_int_equal(got, status);
    assert_null(reading);
}

#endif
