/* test_tokenizer_notes.c: what a tokenizer's file asks for and Gyre does otherwise is said by every command that reads text
 * through it, a line each. */
#include "run_audit.h"

enum { NOTES = 3 };
static const char *const notes[NOTES] = {
    ": tokenizer: padding: not applied, ", ": tokenizer: normalizer NFC?[31m, of: not applied, ",
    ": tokenizer: decoder: not followed, so that every text comes back as it was: W?[31mP"};

/* Byte-level, of bytes alone.  Names of steps hold what would color a terminal, and what stands between two notes. */
static void write_tokenizer(const char *name) {
    char json[8192] =
        "{\"padding\": {\"strategy\": \"BatchLongest\"}, \"normalizer\": {\"type\": \"NFC\\u001b[31m; of\"}, "
        "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}, \"decoder\": "
        "{\"type\": \"W\\u001b[31mP\"}, \"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {";
    for (int i = 0, other = 0; i < 256; i++) {
        const int plain = (i > 32 && i < 127) || (i > 160 && i != 173);
        sprintf(json + strlen(json), "%s\"\\u%04x\": %d", i ? ", " : "", plain ? i : 256 + other++, i);
    }
    strcat(json, "}}}");
    write_file(name, json, strlen(json));
}

/* out = how often the text holds it. */
static int count_of(const char *text, const char *what) {
    int count = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        count++;
    return count;
}

static void expect_notes(const char *line, int each) {
    const outcome *o = run(line);
    if (o->exit != 0) fail_msg("gyre %s: exit %d: %s", line, o->exit, o->err);
    for (int i = 0; i < NOTES; i++)
        if (count_of(o->err, notes[i]) != each)
            fail_msg("gyre %s: \"%s\" is not there %d times: %s", line, notes[i], each, o->err);
    assert_null(strchr(o->err, 0x1b));
}

static void commands_warn(void **state) {
    (void)state;
    static const char *const lines[] = {
        "eval @noted --text @text --contexts 32 --windows 1",
        "eval @rope --tokenizer @noted/tokenizer.json --text @text --contexts 32 --windows 1 --json",
        "generate @noted --prompt a --tokens 1",
        "passkey @noted --lengths 320 --depths 1 --trials 1",
        "explain @noted --check @text",
        "extend @noted --to 64 --text @text --methods none",
        "train --from @noted --text @text --tokens 1k --context 32 -o @retuned",
        "convert @noted -o @copied"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        expect_notes(lines[i], 1);
    expect_notes("eval @rope --text @text --contexts 32 --windows 1", 0);
    expect_notes("generate @rope --prompt a --tokens 1", 0);
}

/* A conversion tells what the result lacks, and what the source asks for. */
static void conversion_tells_both(void **state) {
    (void)state;
    const outcome *o = run("convert @noted -o @noted.gguf");
    assert_int_equal(o->exit, FAILED);
    assert_non_null(strstr(o->err, "normalizer NFC?[31m; of: a GGUF has no way to say it"));
    char text[8192];
    read_whole(in_folder("noted/tokenizer.json"), text, sizeof text);
    char *type = strstr(text, "NFC\\u001b[31m; of");
    assert_non_null(type);
    memmove(type + 3, type + strlen("NFC\\u001b[31m; of"), strlen(type + strlen("NFC\\u001b[31m; of")) + 1);
    write_in("noted", "tokenizer.json", text);
    o = run("convert @noted -o @noted.gguf");
    assert_int_equal(o->exit, 0);
    assert_non_null(strstr(o->err, "noted.gguf goes without something of the model: tokenizer.json: decoder: "));
    assert_non_null(strstr(o->err, "noted: tokenizer: normalizer NFC: not applied"));
    assert_non_null(strstr(o->err, "noted: tokenizer: padding: not applied"));
    write_tokenizer("noted/tokenizer.json");
}

/* They are no fault of the model: the status is that of a model without them. */
static void audit_lists_them(void **state) {
    (void)state;
    json_t *root = audited("@noted", RIGHT);
    expect_count(root, NOTES, "tokens", "note", "Gyre reads texts otherwise: ");
    expect_count(root, 1, "tokens", "note", "padding: not applied");
    expect_count(root, 1, "tokens", "ok", "256 tokens of the tokenizer");
    json_decref(root);
    const outcome *o = run("audit @noted --text @text");
    assert_int_equal(o->exit, RIGHT);
    assert_int_equal(count_of(o->out, "padding: not applied"), 1);
    assert_non_null(strstr(o->out, "tokenizer.json"));
    assert_null(strchr(o->out, 0x1b));
    assert_string_equal(o->err, "");
}

static int make_noted(void **state) {
    if (make_folder(state)) return -1;
    write_model("noted", GYRE_KIND_ROPE);
    write_tokenizer("noted/tokenizer.json");
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_warn),
        cmocka_unit_test(conversion_tells_both),
        cmocka_unit_test(audit_lists_them),
    };
    return cmocka_run_group_tests(tests, make_noted, remove_folder);
}
