/* pre_tokenizer.c: PCRE2 over the parts of a text that are UTF-8.
 *
 * A match is first searched for in the next few bytes alone, as a partial match.  If the end of those bytes matters,
 * PCRE2 reports the place where it does.  The places before it do not match, so the search begins again there.  If it
 * began there already, the place is tried on more bytes.  This shows when a pattern looks far ahead from every place.  From
 * then on the work is counted, item by item and byte by byte, and the total is limited, so for any pattern it grows with the
 * length of the text and not with its square. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pre_tokenizer.h"

#include "util/error.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_PAREN_DEPTH = 100, /* parentheses in a pattern */
    HEAP_KIB = 64 * 1024,  /* memory of one match */
    MATCH_WINDOW = 512,    /* bytes that a match may read in the first try */
    MATCH_STEPS = 4000,    /* steps that it may take then */
    MIN_WORK = 1 << 20,    /* limit of the bytes and items of later tries, for a text: MIN_WORK */
    WORK_PER_BYTE = 256,   /* plus WORK_PER_BYTE for each byte */
    GROWTH_FACTOR = 4      /* of the window from one try to the next */
};

/* -- patterns -- */
/* counted: 1: calls back at every item, and is not compiled for the processor, which would leave some items out. */
static pcre2_code *compile(const char *pattern, size_t bytes, int literal, int counted, int *error, PCRE2_SIZE *offset) {
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context) {
        *error = PCRE2_ERROR_NOMEMORY;
        return NULL;
    }
    (void)pcre2_set_parens_nest_limit(context, MAX_PAREN_DEPTH);
    (void)pcre2_set_newline(context, PCRE2_NEWLINE_LF); /* the default of a PCRE2 is that of its build */
    /* In Oniguruma, ^ and $ always match at line ends. */
    const uint32_t expression = PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    const uint32_t options =
        PCRE2_UTF | PCRE2_USE_OFFSET_LIMIT | (literal ? PCRE2_LITERAL : expression) | (counted ? PCRE2_AUTO_CALLOUT : 0);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)pattern, bytes, options, error, offset, context);
    pcre2_compile_context_free(context);
    /* Matching works without JIT too, only slower. */
    if (code && !counted) (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    return code;
}

gyre_status gyre_pre_tokenizer_add(gyre_pre_tokenizer *steps, const char *pattern, size_t bytes, int literal,
                                   gyre_split_behavior behavior, int inverted, gyre_error *err) {
    char *translated = NULL;
    int error = 0;
    PCRE2_SIZE offset = 0;
    PCRE2_UCHAR why[120] = "";
    if (steps->count == GYRE_MAX_PRE_TOKENIZER_STEPS)
        return gyre_fail(err, GYRE_EUNSUPPORTED, "more than %d steps", GYRE_MAX_PRE_TOKENIZER_STEPS);
    if (bytes == 0) return gyre_fail(err, GYRE_EFORMAT, "an empty pattern");
    if (bytes > GYRE_MAX_PATTERN_BYTES) return gyre_fail(err, GYRE_EUNSUPPORTED, "a pattern of %zu bytes", bytes);
    if (!literal) {
        const gyre_status status = gyre_pattern_translate(pattern, bytes, &translated, err);
        if (status) return status;
        pattern = translated;
        bytes = strlen(translated);
    }
    pcre2_code *code = compile(pattern, bytes, literal, 0, &error, &offset);
    pcre2_code *counted = code && !literal ? compile(pattern, bytes, literal, 1, &error, &offset) : NULL;
    free(translated);
    if (!code || (!counted && !literal)) {
        pcre2_code_free(code);
        if (error == PCRE2_ERROR_NOMEMORY || error == PCRE2_ERROR_HEAP_FAILED)
            return gyre_fail(err, GYRE_ENOMEM, "no memory for a pattern");
        (void)pcre2_get_error_message(error, why, sizeof why);
        return gyre_fail(err, GYRE_EFORMAT, "a pattern that makes no sense at its byte %zu: %s", (size_t)offset,
                         (char *)why);
    }
    steps->steps[steps->count++] = (gyre_pre_tokenizer_step){code, counted, behavior, inverted};
    return GYRE_OK;
}

void gyre_pre_tokenizer_free(gyre_pre_tokenizer *steps) {
    for (int i = 0; i < steps->count; i++) {
        pcre2_code_free(steps->steps[i].code);
        pcre2_code_free(steps->steps[i].counted);
    }
    steps->count = 0;
}

/* -- one text -- */
typedef struct splitter {
    const gyre_pre_tokenizer *steps;
    gyre_word_callback take;
    void *ctx;
    pcre2_match_data *found;
    pcre2_match_context *limits;
    uint64_t *work_left;
    size_t counted_at; /* where the last item stood that was counted */
    gyre_error *err;
} splitter;

static gyre_status split_step(splitter *c, int step, const unsigned char *text, size_t bytes);

/* The word that a step is building, text[start .. end - 1], before it is passed to the next step. */
typedef struct pending {
    splitter *c;
    int step;
    const unsigned char *text;
    size_t start, end;
    int begun, was_match;
} pending;

static gyre_status flush_pending(pending *p) {
    if (p->start == p->end) return GYRE_OK; /* an empty match, which only separates its neighbours */
    return split_step(p->c, p->step + 1, p->text + p->start, p->end - p->start);
}

/* Adds the next part of the text, a match or the text before one, to the pending word or begins a new one.  A match may be
 * empty. */
static gyre_status put(pending *p, size_t start, size_t end, int is_match) {
    const gyre_pre_tokenizer_step *step = &p->c->steps->steps[p->step];
    gyre_status status = GYRE_OK;
    int joins = 0;
    is_match ^= step->inverted;
    if (p->begun) {
        joins = (step->behavior == GYRE_SPLIT_CONTIGUOUS && is_match == p->was_match) ||
                (step->behavior == GYRE_SPLIT_MERGED_WITH_PREVIOUS && is_match && !p->was_match) ||
                (step->behavior == GYRE_SPLIT_MERGED_WITH_NEXT && !is_match && p->was_match);
        if (!joins) status = flush_pending(p);
    }
    if (!joins) p->start = start;
    p->end = end;
    p->begun = 1;
    p->was_match = is_match;
    return status;
}

static gyre_status fail_match(const splitter *c, int step, int error) {
    PCRE2_UCHAR why[120] = "";
    if (error == PCRE2_ERROR_NOMEMORY || error == PCRE2_ERROR_HEAP_FAILED)
        return gyre_fail(c->err, GYRE_ENOMEM, "tokenizer: no memory for a pattern's match");
    (void)pcre2_get_error_message(error, why, sizeof why);
    return gyre_fail(c->err, GYRE_EUNSUPPORTED, "tokenizer: its pattern %d is too much work on this text: %s", step + 1,
                     (char *)why);
}

/* Takes `work` from the limit.  Returns 0 if too little is left. */
static int spend_work(splitter *c, uint64_t work) {
    if (work > *c->work_left) return 0;
    *c->work_left -= work;
    return 1;
}

/* Called at every item of a counted pattern.  The bytes from the item before to this one were looked at. */
static int count_item(pcre2_callout_block *item, void *splitter_) {
    splitter *c = splitter_;
    const size_t at = item->current_position, bytes = at > c->counted_at ? at - c->counted_at : c->counted_at - at;
    c->counted_at = at;
    return spend_work(c, 1 + bytes) ? 0 : PCRE2_ERROR_MATCHLIMIT;
}

/* A search for the next match. */
typedef struct search {
    const gyre_pre_tokenizer_step *step;
    const unsigned char *text;
    size_t bytes, from;
    size_t alone_before; /* a place before this one is tried alone, because some place here takes more steps */
    uint64_t length;     /* bytes allowed */
} search;

/* 1: the next try is for a match that begins at `from`, and is counted.  More bytes and steps are for one place alone. */
static int is_alone(const search *s) {
    return s->from < s->alone_before || s->length > MATCH_WINDOW;
}

/* Goes to the first place that may still match. */
static void move_search(search *s, size_t from) {
    s->from = from;
    s->length = MATCH_WINDOW;
}

/* out = where the character after the one at `at` begins, or bytes + 1 at the end. */
static size_t next_character(const unsigned char *text, size_t bytes, size_t at) {
    do
        at++;
    while (at < bytes && (text[at] & 0xC0) == 0x80);
    return at;
}

/* out = the largest character boundary that is at most at + length. */
static size_t utf8_boundary(const unsigned char *text, size_t bytes, size_t at, uint64_t length) {
    if (length >= bytes - at) return bytes;
    size_t end = at + (size_t)length;
    while ((text[end] & 0xC0) == 0x80)
        end--;
    return end;
}

/* out = the result of PCRE2 on the bytes before subject_end.  PCRE2_ERROR_PARTIAL: it would have looked at more bytes. */
static int try_match(splitter *c, const search *s, size_t subject_end) {
    const uint32_t options = PCRE2_NO_UTF_CHECK | (subject_end < s->bytes ? PCRE2_PARTIAL_HARD : 0);
    const int alone = is_alone(s), counted = alone && s->step->counted;
    const pcre2_code *code = counted ? s->step->counted : s->step->code;
    c->counted_at = s->from;
    (void)pcre2_set_match_limit(c->limits, counted ? UINT32_MAX : MATCH_STEPS);
    (void)pcre2_set_offset_limit(c->limits, alone ? s->from : PCRE2_UNSET);
    const int rc = pcre2_match(code, s->text, subject_end, s->from, options, c->found, c->limits);
    if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
    return pcre2_match(code, s->text, subject_end, s->from, options | PCRE2_NO_JIT, c->found, c->limits);
}

/* Moves on after no match was found.  Returns 0 at the end of the text. */
static int advance_search(search *s, size_t subject_end) {
    if (is_alone(s)) {
        move_search(s, next_character(s->text, s->bytes, s->from));
        return s->from <= s->bytes; /* a pattern may match at the end of the text */
    }
    move_search(s, subject_end);
    return subject_end < s->bytes;
}

/* Allows more bytes for a place, or tries the places before subject_end alone.  Returns 0 if that is too much work. */
static int grow_search(splitter *c, search *s, int rc, size_t subject_end) {
    if (rc == PCRE2_ERROR_PARTIAL) {
        s->length *= GROWTH_FACTOR;
        return spend_work(c, s->length < s->bytes - s->from ? s->length : s->bytes - s->from);
    }
    if (is_alone(s)) return 0; /* its work was counted */
    s->alone_before = subject_end;
    return 1; /* PCRE2 does not report which place it was */
}

/* Returns 1, with a match at or after `at`, which may be empty; or 0 if there is none; or PCRE2's error. */
static int next_match(splitter *c, const gyre_pre_tokenizer_step *step, const unsigned char *text, size_t bytes, size_t at,
                      size_t *start, size_t *end) {
    search s = {step, text, bytes, at, 0, MATCH_WINDOW};
    const PCRE2_SIZE *span = pcre2_get_ovector_pointer(c->found);
    for (;;) {
        const size_t subject_end = utf8_boundary(text, bytes, s.from, s.length);
        const int rc = try_match(c, &s, subject_end);
        if (rc == PCRE2_ERROR_NOMATCH) {
            if (!advance_search(&s, subject_end)) return 0;
        } else if (rc == PCRE2_ERROR_PARTIAL && span[0] > s.from && span[0] <= subject_end) {
            move_search(&s, span[0]); /* the places before it do not match, whatever follows */
        } else if (rc == PCRE2_ERROR_PARTIAL || rc == PCRE2_ERROR_MATCHLIMIT) {
            if (!grow_search(c, &s, rc, subject_end)) return PCRE2_ERROR_MATCHLIMIT;
        } else if (rc < 0) {
            return rc;
        } else {
            *start = span[0];
            *end = span[1];
            /* \K may have moved the start anywhere. */
            return *start >= at && *end >= *start && *end <= bytes ? 1 : 0;
        }
    }
}

/* Applies step `step` and all later ones to a text that is valid UTF-8.  An empty match counts, unless it is where the match
 * before it ended, as in the tokenizers library. */
static gyre_status split_step(splitter *c, int step, const unsigned char *text, size_t bytes) {
    if (step == c->steps->count) return c->take(c->ctx, text, bytes, c->err);
    pending p = {c, step, text, 0, 0, 0, 0};
    gyre_status status = GYRE_OK;
    size_t done = 0, at = 0, start, end; /* text[0 .. done - 1] has been put */
    int is_after_match = 0;
    while (at <= bytes && !status) {
        const int rc = next_match(c, &c->steps->steps[step], text, bytes, at, &start, &end);
        if (rc < 0) return fail_match(c, step, rc);
        if (rc == 0) break;
        /* A search from the end of an empty match would find it again. */
        at = end > start ? end : next_character(text, bytes, end);
        if (start == end && is_after_match && start == done) continue;
        if (start > done) status = put(&p, done, start, 0);
        if (!status) status = put(&p, start, end, 1);
        done = end;
        is_after_match = 1;
    }
    if (!status && bytes > done) status = put(&p, done, bytes, 0);
    return !status ? flush_pending(&p) : status;
}

/* out = bytes of the UTF-8 character at s, or 0 if it is malformed (Unicode, table 3-7). */
static size_t utf8_at(const unsigned char *s, size_t left) {
    if (s[0] < 0x80) return 1;
    const size_t n = s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 0;
    if (n == 0 || n > left) return 0;
    const unsigned char min = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    const unsigned char max = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    if (s[1] < min || s[1] > max) return 0;
    for (size_t i = 2; i < n; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    return n;
}

static gyre_status split_valid_utf8(splitter *c, const unsigned char *text, size_t bytes) {
    gyre_status status = GYRE_OK;
    for (size_t at = 0, end = 0, n; at < bytes && !status; at = end) {
        while (end < bytes && (n = utf8_at(text + end, bytes - end)) > 0)
            end += n;
        if (end > at) status = split_step(c, 0, text + at, end - at);
        for (at = end; end < bytes && utf8_at(text + end, bytes - end) == 0;)
            end++;
        if (end > at && !status) status = c->take(c->ctx, text + at, end - at, c->err);
    }
    return status;
}

uint64_t gyre_pre_tokenizer_work(size_t bytes) {
    return MIN_WORK + (uint64_t)WORK_PER_BYTE * bytes;
}

gyre_status gyre_pre_tokenize(const gyre_pre_tokenizer *steps, const unsigned char *text, size_t bytes, uint64_t *work_left,
                              gyre_word_callback take, void *ctx, gyre_error *err) {
    if (bytes == 0) return GYRE_OK;
    if (steps->count == 0) return take(ctx, text, bytes, err);
    splitter c = {.steps = steps, .take = take, .ctx = ctx, .work_left = work_left, .err = err};
    c.found = pcre2_match_data_create(1, NULL);
    c.limits = pcre2_match_context_create(NULL);
    gyre_status status = GYRE_ENOMEM;
    if (c.found && c.limits) {
        (void)pcre2_set_heap_limit(c.limits, HEAP_KIB);
        (void)pcre2_set_callout(c.limits, count_item, &c);
        status = split_valid_utf8(&c, text, bytes);
    } else {
        (void)gyre_fail(err, GYRE_ENOMEM, "tokenizer: no memory for a pattern's match");
    }
    pcre2_match_data_free(c.found);
    pcre2_match_context_free(c.limits);
    return status;
}
