/* test_plain_stream.c: what a file says cannot command a terminal. */
#define _XOPEN_SOURCE 700 /* posix_openpt */
#include "run_command.h"
#include "tools/cli/plain_stream.h"

#include <errno.h>
#include <fcntl.h>

static char found[4096];

static void write_pieces(int fd, const char *bytes, size_t count, size_t step) {
    FILE *stream = plain_stream_open(fd);
    assert_non_null(stream);
    assert_int_equal(plain_stream_descriptor(stream), fd);
    for (size_t at = 0; at < count; at += step) {
        const size_t n = count - at < step ? count - at : step;
        assert_int_equal(fwrite(bytes + at, 1, n, stream), n);
        assert_int_equal(fflush(stream), 0);
    }
    assert_int_equal(plain_stream_close(stream), 0);
}

/* out = what reaches the file of `bytes` written in pieces of `step`. */
static const char *filtered(const char *bytes, size_t count, size_t step) {
    const int fd = open(in_folder("plain"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    write_pieces(fd, bytes, count, step);
    found[pread(fd, found, sizeof found - 1, 0)] = 0;
    close(fd);
    return found;
}

/* out = the same on a terminal. */
static const char *shown(const char *bytes, size_t count, size_t step) {
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master)) skip();
    const int fd = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(fd >= 0);
    write_pieces(fd, bytes, count, step);
    close(fd); /* a master then reads what is left, which may come in pieces, and an error at the end */
    size_t all = 0;
    for (ssize_t n; all < sizeof found - 1 && (n = read(master, found + all, sizeof found - 1 - all)) > 0;)
        all += (size_t)n;
    found[all] = 0;
    close(master);
    return found;
}

/* However the text is cut, the bytes are the same. */
static void check(const char *text, const char *want) {
    char copy[256];
    const size_t count = strlen(text);
    for (size_t step = 1; step <= count; step++) {
        memset(found, 0, sizeof found);
        if (strcmp(filtered(text, count, step), want) != 0)
            fail_msg("\"%s\" in pieces of %zu, not \"%s\"", found, step, want);
    }
    if (strchr(text, '\033')) return;
    plain_text(copy, sizeof copy, text);
    assert_string_equal(copy, want);
}

static void characters(void **state) {
    (void)state;
    check("plain\ttext\n", "plain\ttext\n");
    check("\xc3\xa9 \xe6\x97\x8b\xe8\xbd\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe6\x97\x8b\xe8\xbd\xac \xf0\x9f\x98\x80");
    check("\033[1mbold\033[0m", "\\u001b[1mbold\\u001b[0m");
    check("\033]0;title\007", "\\u001b]0;title\\u0007");
    check("\033[8mhidden", "\\u001b[8mhidden");
    check("\033[32", "\\u001b[32");
    check("a\rb\x7f", "a\\u000db\\u007f");
    check("\xc2\x9b"
          "31m",
          "\\u009b31m");
    check("a\xe2\x80\xae"
          "b\xe2\x81\xa6\xef\xbb\xbf",
          "a\\u202eb\\u2066\\ufeff");
    check("\xff\xe6\x97", "\xef\xbf\xbd\xef\xbf\xbd");
}

/* A terminal shows the command's own codes of colour, and no others. */
static void colors(void **state) {
    (void)state;
    static const char text[] = "\033[1mbold\033[0m \033[8mhidden \033[32";
    for (size_t step = 1; step < sizeof text; step++) {
        memset(found, 0, sizeof found);
        assert_string_equal(shown(text, sizeof text - 1, step), "\033[1mbold\033[0m \\u001b[8mhidden \\u001b[32");
    }
}

static void long_texts(void **state) {
    (void)state;
    static char text[3000], want[3000];
    memset(text, 'x', sizeof text - 1);
    memcpy(want, text, sizeof text);
    assert_string_equal(filtered(text, sizeof text - 1, 7), want);
    plain_text(found, 10, text);
    assert_int_equal(strlen(found), 9);
}

/* A full disk is told once, and its first error is kept. */
static void errors(void **state) {
    (void)state;
    const int fd = open("/dev/full", O_WRONLY);
    FILE *stream = plain_stream_open(fd);
    fputs("text", stream);
    assert_int_not_equal(fflush(stream), 0);
    fputs("more", stream);
    assert_int_equal(plain_stream_close(stream), ENOSPC);
    close(fd);
}

static const char *const hostile =
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_attention_heads\":2,\"num_hidden_layers\":2,"
    "\"max_position_embeddings\":4096,\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2.0,"
    "\"\\u001b]0;pwned\\u0007\\u009b31m\\u202e\":1},\"layer_types\":[\"\\u001b]0;pwned\\u0007\",\"\\u009b\\u202e\"]}";

static int is_plain(const char *text) {
    return !strpbrk(text, "\033\007\r") && !strstr(text, "\xc2\x9b") && !strstr(text, "\xe2\x80\xae");
}

static void commands(void **state) {
    (void)state;
    static const char *const lines[] = {"explain @evil.json",
                                        "explain @evil.json --json",
                                        "extend @evil.json --to 16k",
                                        "extend @evil.json --to 16k --json",
                                        "diff @evil.json @rope",
                                        "diff @evil.json @rope --json",
                                        "extend @evil.json --to 16k --method linear --write @out.json"};
    write_file("evil.json", hostile, strlen(hostile));
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const outcome *o = run(lines[i]);
        if (!is_plain(o->out) || !is_plain(o->err)) fail_msg("gyre %s: control characters", lines[i]);
    }
    /* Names of files hold them too, and codes of colour, which the command prints on a terminal alone. */
    write_file("t\033[31m.txt", hostile, strlen(hostile));
    const outcome *named = run("eval @rope --text @t\033[31m.txt --contexts 16 --windows 1");
    if (named->exit || !is_plain(named->out) || !is_plain(named->err)) fail_msg("eval: %d\n%s", named->exit, named->out);
    write_file("a\033]0;x\007\xc2\x9b.json", hostile, strlen(hostile));
    const outcome *o = run("explain @a\033]0;x\007\xc2\x9b.json");
    assert_true(is_plain(o->out) && is_plain(o->err));
}

/* A line break inside a name or a text of a file begins no line of what is printed. */
static void no_line_of_a_name(void **state) {
    (void)state;
    static const char *const lines[] = {"eval @rope --text @t\nFORGED --contexts 16 --windows 1",
                                        "eval @rope --text @t\nFORGED --text @rope/config.json --contexts 16 --windows 1",
                                        "passkey @r\nFORGED --lengths 320 --depths 1 --trials 1",
                                        "convert @r\nFORGED -o @c\nFORGED",
                                        "shard @r\nFORGED --context 1k --ranks 2",
                                        "explain @r\nFORGED",
                                        "audit @r\nFORGED",
                                        "extend @r\nFORGED --to 1k --method yarn --write @c.json\nFORGED",
                                        "convert @forged -o @forged.gguf",
                                        "shard @forged --context 1k --ranks 2",
                                        "audit @forged",
                                        "plot wavelengths @forged --csv",
                                        "plot wavelengths --compare @forged,@r\nFORGED --csv",
                                        "plot perplexity @forged.json --csv",
                                        "plot perplexity @forged.jsonl --csv"};
    static const char result[] = "{\"results\": [{\"label\": \"no\\nFORGED\", \"context\": 32, \"perplexity\": 3}]}",
                      line_of_journal[] = "{\"cell\": {\"method\": \"no\\nFORGED\", \"context\": 32}, \"figures\": "
                                          "{\"nats\": 1, \"windows\": 4, \"variance\": 0.1}}\n";
    static char config[4096], changed[4200];
    char command[1200];
    write_file("t\nFORGED", hostile, strlen(hostile));
    write_file("forged.json", result, sizeof result - 1);
    write_file("forged.jsonl", line_of_journal, sizeof line_of_journal - 1);
    snprintf(command, sizeof command, "cd '%s' && cp -Lr rope forged && cp -Lr rope 'r\nFORGED'", in_folder("."));
    assert_int_equal(system(command), 0);
    read_whole(in_folder("forged/config.json"), config, sizeof config);
    const char *type = strstr(config, "\"llama\"");
    assert_non_null(type);
    snprintf(changed, sizeof changed, "%.*s\"llama\\nFORGED\"%s", (int)(type - config), config, type + 7);
    write_file("forged/config.json", changed, strlen(changed));
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const outcome *o = run(lines[i]);
        if (strstr(o->out, "\nFORGED") || strncmp(o->out, "FORGED", 6) == 0 || strstr(o->err, "\nFORGED") || o->exit == 2)
            fail_msg("gyre %s: %d\n%s%s", lines[i], o->exit, o->out, o->err);
        if (strstr(lines[i], "forged.json") && !strstr(o->out, "no\\u000aFORGED,"))
            fail_msg("gyre %s: another name: %s%s", lines[i], o->out, o->err);
    }
}

/* What a model writes is data in a pipe and in a file.  On a terminal none of it acts, not even a colour, which the command
 * could not tell from its own. */
static void generated_text(void **state) {
    (void)state;
    static const char line[] = "generate @rope --prompt \033[31m\033]0;x\007\xc2\x9b\xe2\x80\xae --echo --tokens 4";
    static const char raw[] = "\033[31m\033]0;x\007\xc2\x9b\xe2\x80\xae",
                      seen[] = "\\u001b[31m\\u001b]0;x\\u0007\\u009b\\u202e";
    const outcome *piped = run(line);
    if (piped->exit || memcmp(piped->out, raw, sizeof raw - 1) != 0) fail_msg("in a pipe: %d %s", piped->exit, piped->out);
    char command[512];
    snprintf(command, sizeof command, "%s -o @made.txt", line);
    assert_int_equal(run(command)->exit, 0);
    read_whole(in_folder("made.txt"), found, sizeof found);
    assert_memory_equal(found, raw, sizeof raw - 1);
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master)) skip();
    const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    outcome o;
    assert_true(terminal >= 0);
    finish(start(line, ptsname(master)), &o);
    close(terminal);
    size_t all = 0;
    for (ssize_t n; all < sizeof found - 1 && (n = read(master, found + all, sizeof found - 1 - all)) > 0;)
        all += (size_t)n;
    found[all] = 0;
    close(master);
    if (strncmp(found, seen, sizeof seen - 1) != 0 || strpbrk(found, "\033\007")) fail_msg("on a terminal: %s", found);
}

/* Every command that prints says so when its output takes nothing. */
static void full_output(void **state) {
    (void)state;
    static const char *const lines[] = {
        "explain @rope",
        "explain @rope --json",
        "diff @rope @rope",
        "extend @rope --to 1k",
        "extend @rope --to 1k --json",
        "show shift",
        "convert @rope -o @converted --json --force",
        "convert @rope -o @converted --force",
        "generate @rope --prompt a --tokens 2",
        "eval @rope --text @text --context 16",
        "eval @rope --text @text --context 16 --json-lines",
        "passkey @rope --lengths 320 --trials 1 --depths 1",
        "train --text @text -o @trained --tokens 1k --context 16 --batch 1 --layers 1 --width 16 --json",
        "help",
        "version"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        static outcome o;
        finish(start(lines[i], "/dev/full"), &o);
        if (o.exit != 1 || !strstr(o.err, "No space left on device"))
            fail_msg("gyre %s >/dev/full: exit %d: %s", lines[i], o.exit, o.err);
        if (!strstr(o.err, "standard output: ")) fail_msg("gyre %s >/dev/full: which file is full? %s", lines[i], o.err);
    }
    assert_fails("generate @rope --prompt a --tokens 2 -o /dev/full", 1, "/dev/full: No space");
}

/* And names the file, whatever part of it could not be written: --output, --json, tables, figures, reports. */
static void full_file(void **state) {
    (void)state;
    static const char *const lines[] = {
        "explain @rope -o @full",
        "explain @rope --json -o @full",
        "diff @rope @alibi -o @full",
        "diff @rope @alibi --json -o @full",
        "audit @rope -o @full",
        "audit @rope --json -o @full",
        "extend @rope --to 1k -o @full",
        "extend @rope --to 1k --json -o @full",
        "show shift -o @full",
        "show shift --json -o @full",
        "shard @rope --context 1024 --ranks 2 -o @full",
        "shard @rope --context 1024 --ranks 2 --json -o @full",
        "plot wavelengths @rope -o @full.csv",
        "plot wavelengths @rope -o @full.json",
        "explore @rope -o @full",
        "generate @rope --prompt a --tokens 2 -o @full",
        "generate @rope --prompt a --tokens 2 --json -o @full",
        "eval @rope --text @text --contexts 32,64 --windows 2 -o @full",
        "eval @rope --text @text --contexts 32,64 --windows 2 --json -o @full",
        "passkey @rope --lengths 320,400 --trials 1 -o @full",
        "passkey @rope --lengths 320,400 --trials 1 --json -o @full",
        "search @rope --text @text --to 64 --budget 20 --windows 2 --held-out 2 -o @full",
        "search @rope --text @text --to 64 --budget 20 --windows 2 --held-out 2 --json -o @full"};
    static const char page[] = "<body><!-- CONFIG --></body>\n";
    static const char *const links[] = {"full", "full.csv", "full.json"};
    if (access("/dev/full", W_OK)) skip();
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        assert_int_equal(symlink("/dev/full", in_folder(links[i])), 0);
    write_file("page.html", page, sizeof page - 1);
    setenv("GYRE_EXPLORER", in_folder("page.html"), 1);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_fails(lines[i], 1, "No space left on device");
        assert_fails(lines[i], 1, in_folder(strrchr(lines[i], '@') + 1));
    }
}

/* JSON is text: of a name that is none, each byte past ASCII is a question mark. */
static void names_that_are_no_text(void **state) {
    (void)state;
    static const char *const lines[] = {
        "explain @r\xff --json",
        "diff @r\xff @rope --json",
        "audit @r\xff --json",
        "extend @r\xff --to 1k --json",
        "extend @a\xff --to 1k --json",
        "extend @r\xff --to 1k --method yarn --write @w\xff --json",
        "shard @r\xff --context 1024 --ranks 2 --json",
        "generate @r\xff --prompt a\xff --tokens 2 --json",
        "convert @r\xff -o @c\xff --json",
        "train --text @t\xff -o @n\xff --tokens 1k --context 16 --batch 1 --layers 1 --width 16 --json",
        "passkey @r\xff --lengths 320 --trials 1 --json",
        "search @r\xff --text @t\xff --to 64 --budget 20 --windows 2 --held-out 2 --json",
        "eval @r\xff --text @t\xff --contexts 32 --windows 2 --json",
        "plot perplexity @e\xff.json --json"};
    assert_int_equal(symlink("rope", in_folder("r\xff")) | symlink("alibi", in_folder("a\xff")), 0);
    assert_int_equal(link(in_folder("text"), in_folder("t\xff")), 0);
    assert_int_equal(run("eval @rope --text @text --contexts 32 --windows 2 --json -o @e\xff.json")->exit, 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        json_decref(run_json(lines[i]));
    char line[512];
    snprintf(line, sizeof line, "plot wavelengths --compare %s,%s --json", in_folder("r\xff"), in_folder("rope"));
    json_t *root = run_json(line), *first = json_array_get(json_object_get(root, "rows"), 0);
    int named = 0;
    for (size_t i = 0; i < json_array_size(first); i++) {
        const char *text = json_string_value(json_array_get(first, i));
        named |= text && strlen(text) > 2 && strcmp(text + strlen(text) - 2, "r?") == 0;
    }
    assert_true(named);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(characters),     cmocka_unit_test(colors),
                                       cmocka_unit_test(long_texts),     cmocka_unit_test(errors),
                                       cmocka_unit_test(commands),       cmocka_unit_test(no_line_of_a_name),
                                       cmocka_unit_test(generated_text), cmocka_unit_test(full_output),
                                       cmocka_unit_test(full_file),      cmocka_unit_test(names_that_are_no_text)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
