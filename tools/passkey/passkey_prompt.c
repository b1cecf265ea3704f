/* passkey_prompt.c: building prompts that fit into a length. */
#include "tools/passkey/passkey_prompt.h"
#include "tools/cli/cli_error.h"
#include "tools/common/model_input.h"
#include "util/random.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char task[] = "There is an important info hidden inside a lot of irrelevant text. Find it and memorize them. "
                           "I will quiz you about the important information there.";
static const char *const filler[] = {"The grass is green.", "The sky is blue.", "The sun is yellow.", "Here we go.",
                                     "There and back again."};
enum { SENTENCES = sizeof filler / sizeof *filler, KEY_DIGITS_SIZE = 16, END_MARK = GYRE_PASSKEY_MARK + GYRE_PASSKEY_KEYS };
static const char key_placeholder[] = "{key}";

passkey_phrases passkey_marks(void) {
    static const char needle[] = {(char)GYRE_PASSKEY_MARK, '{', 'k', 'e', 'y', '}', (char)END_MARK, 0};
    static const char question[] = {(char)GYRE_PASSKEY_MARK, 0};
    return (passkey_phrases){needle, question, PASSKEY_ANSWER, 1, NULL, NULL};
}

/* -- text -- */
/* out NULL: only counts bytes. */
typedef struct writer {
    char *out;
    size_t used;
} writer;

static void put(writer *w, const char *text, size_t bytes) {
    if (w->out) memcpy(w->out + w->used, text, bytes);
    w->used += bytes;
}

static void put_with_key(writer *w, const char *text, const char *key) {
    for (const char *found; (found = strstr(text, key_placeholder)); text = found + sizeof key_placeholder - 1) {
        put(w, text, (size_t)(found - text));
        put(w, key, strlen(key));
    }
    put(w, text, strlen(text));
}

static void put_filler(writer *w, int64_t sentences) {
    for (int64_t i = 0; i < sentences; i++) {
        if (i) put(w, " ", 1);
        put(w, filler[i % SENTENCES], strlen(filler[i % SENTENCES]));
    }
    put(w, "\n", 1);
}

static void put_prompt(writer *w, const passkey_phrases *phrases, int64_t sentences, int64_t before, const char *key) {
    if (!phrases->marks) {
        put(w, task, sizeof task - 1);
        put(w, "\n", 1);
    }
    put_filler(w, before);
    put_with_key(w, phrases->needle, key);
    put(w, "\n", 1);
    put_filler(w, sentences - before);
    put_with_key(w, phrases->question, key);
    put(w, "", 1);
}

static void key_digits(const passkey_phrases *phrases, int key, char out[KEY_DIGITS_SIZE]) {
    snprintf(out, KEY_DIGITS_SIZE, phrases->marks ? "%04d" : "%d", key);
}

char *passkey_prompt_text(const passkey_phrases *phrases, int64_t sentences, int64_t before, int key) {
    char digits[KEY_DIGITS_SIZE];
    writer w = {NULL, 0};
    key_digits(phrases, key, digits);
    put_prompt(&w, phrases, sentences, before, digits);
    w = (writer){malloc(w.used), 0};
    if (w.out) put_prompt(&w, phrases, sentences, before, digits);
    return w.out;
}

static char *answer_text(const passkey_phrases *phrases, int key) {
    char digits[KEY_DIGITS_SIZE];
    writer w = {NULL, 0};
    key_digits(phrases, key, digits);
    put_with_key(&w, phrases->answer, digits);
    w = (writer){malloc(w.used + 1), 0};
    if (!w.out) return NULL;
    put_with_key(&w, phrases->answer, digits);
    w.out[w.used] = 0;
    return w.out;
}

/* -- fitting the filler -- */
static int64_t place(int64_t sentences, double depth) {
    const int64_t before = (int64_t)(depth * (double)sentences + 0.5);
    return before < sentences ? before : sentences;
}

/* *ids, *count = the tokens of the prompt with `sentences` sentences of filler. */
static gyre_status tokens_of(const passkey_template *m, double depth, int key, int64_t sentences, int32_t **ids,
                             int64_t *count, gyre_error *err) {
    char *text = passkey_prompt_text(&m->phrases, sentences, place(sentences, depth), key);
    if (!text) return gyre_fail(err, GYRE_ENOMEM, "prompt: out of memory (passkey)");
    gyre_text tokens = {.ids = NULL};
    const chat *form = m->phrases.chat;
    const gyre_status status =
        form ? chat_tokenize(form, &(chat_question){.user = text, .reply = m->phrases.reply}, &tokens, err)
             : gyre_tokenize(m->tokenizer, text, strlen(text), GYRE_TOKENIZE_BEGIN, &tokens, err);
    *ids = tokens.ids;
    *count = tokens.count;
    free(text);
    return status;
}

/* A search for the largest number of sentences that fits. */
typedef struct prompt_fit {
    const passkey_template *template;
    double depth;
    int key;
    int64_t room;      /* maximum tokens of the prompt */
    int64_t sentences; /* largest number known to fit; -1 = none yet */
    int32_t *ids;      /* [count] of that prompt */
    int64_t count;
    int64_t bare; /* tokens without filler, if that was tried */
} prompt_fit;

static gyre_status try_sentences(prompt_fit *f, int64_t sentences, int *fits, gyre_error *err) {
    int32_t *ids = NULL;
    int64_t count = 0;
    *fits = 0;
    if (sentences > f->template->length) return GYRE_OK; /* a sentence has at least one token */
    const gyre_status status = tokens_of(f->template, f->depth, f->key, sentences, &ids, &count, err);
    if (status) return status;
    if (sentences == 0) f->bare = count;
    *fits = count <= f->room;
    if (*fits) {
        free(f->ids);
        f->ids = ids;
        f->count = count;
        f->sentences = sentences;
    } else {
        free(ids);
    }
    return GYRE_OK;
}

/* Starts at the estimate, moves in one direction in doubling steps, then bisects. */
static gyre_status fit_sentences(prompt_fit *f, gyre_error *err) {
    int64_t low = -1, high = -1; /* known to fit; known not to fit */
    for (int64_t step = 1, at = f->template->initial_sentences; low < 0 || high < 0; step *= 2) {
        int fits;
        const gyre_status status = try_sentences(f, at, &fits, err);
        if (status) return status;
        if (fits)
            low = at;
        else
            high = at;
        if (high == 0) return GYRE_OK; /* nothing fits: f->sentences stays -1 */
        at = low < 0 ? high - step : low + step;
        if (at < 0) at = 0;
    }
    while (high - low > 1) {
        int fits;
        const int64_t middle = low + (high - low) / 2;
        const gyre_status status = try_sentences(f, middle, &fits, err);
        if (status) return status;
        if (fits)
            low = middle;
        else
            high = middle;
    }
    return GYRE_OK;
}

gyre_status passkey_prompt_make(passkey_prompt *out, const passkey_template *template, double depth, int key,
                                gyre_error *err) {
    char *answer = answer_text(&template->phrases, key);
    if (!answer) return gyre_fail(err, GYRE_ENOMEM, "prompt: out of memory (passkey)");
    const int64_t steps = template->steps ? template->steps : (int64_t)strlen(answer) + 1;
    /* The last token of an answer is not read. */
    prompt_fit f = {
        .template = template, .depth = depth, .key = key, .room = template->length - (steps - 1), .sentences = -1};
    gyre_status status = fit_sentences(&f, err);
    if (!status && f.sentences < 0)
        status = gyre_fail(err, GYRE_EINVAL,
                           "length %lld: too short; the prompt takes %lld tokens without filler, and its answer %lld "
                           "(passkey)",
                           (long long)template->length, (long long)f.bare, (long long)(steps - 1));
    if (status) {
        free(answer);
        free(f.ids);
        return status;
    }
    *out = (passkey_prompt){answer, f.ids, f.count, steps, f.sentences, place(f.sentences, depth)};
    return GYRE_OK;
}

void passkey_prompt_free(passkey_prompt *prompt) {
    free(prompt->answer);
    free(prompt->ids);
    *prompt = (passkey_prompt){0};
}

/* The filler repeats every few sentences, so a few repetitions give the tokens of a sentence. */
gyre_status passkey_template_init(passkey_template *template, const gyre_tokenizer *tokenizer,
                                  const passkey_phrases *phrases, int64_t length, int64_t steps, gyre_error *err) {
    enum { MEASURED = 10 * SENTENCES };
    const int key = phrases->marks ? 4711 : 55555;
    passkey_template m = {tokenizer, *phrases, length, steps, 0, 0};
    int64_t counts[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        int32_t *ids = NULL;
        const gyre_status status = tokens_of(&m, 0.5, key, i * MEASURED, &ids, &counts[i], err);
        free(ids);
        if (status) return status;
    }
    const double each = (double)(counts[1] - counts[0]) / MEASURED, room = (double)(length - counts[0]);
    m.initial_sentences = each > 0 && room > 0 ? (int64_t)(room / each) : 0;
    passkey_prompt prompt = {0};
    const gyre_status status = passkey_prompt_make(&prompt, &m, 0.5, key, err);
    if (status) return status;
    m.initial_sentences = prompt.sentences;
    m.hash = hash_token_ids(prompt.ids, prompt.count);
    passkey_prompt_free(&prompt);
    *template = m;
    return GYRE_OK;
}

/* -- keys -- */
/* The output function of splitmix64: close inputs give unrelated outputs. */
static uint64_t mix(uint64_t z) {
    return gyre_random_next(&z);
}

int passkey_key(uint64_t seed, int64_t length, double depth, int64_t trial) {
    const uint64_t place = (uint64_t)(depth * 1e6 + 0.5);
    return 10000 + (int)(mix(mix(mix(mix(seed) + (uint64_t)length) + place) + (uint64_t)trial) % 90000);
}

int passkey_marked_key(int key) {
    for (int k = key % 10000;; k = (k + 7919) % 10000) { /* a prime, so that every number comes */
        const int a = k / 100, b = k / 10 % 100, c = k % 100;
        if (a != b && b != c && a != c) return k;
    }
}

int passkey_is_exact(const char *answer, const char *text) {
    const size_t length = strlen(answer);
    while (isspace((unsigned char)*text))
        text++;
    if (strncmp(text, answer, length) != 0) return 0;
    return !(length && isdigit((unsigned char)answer[length - 1]) && isdigit((unsigned char)text[length]));
}
