/* explain_check.h: gyre explain --check: which layout of pairs a model's weights were trained with, found by reading a text
 * under both.
 *
 * A file that says the wrong one still runs, and writes sentences; only the figures tell. */
#ifndef GYRE_TOOLS_EXPLAIN_CHECK_H
#define GYRE_TOOLS_EXPLAIN_CHECK_H
#include "tools/common/run_card.h"
#include "tools/explain/explain_text.h"

enum { CHECK_WINDOWS = 8, CHECK_MAX_CONTEXT = 512, CHECK_MIN_CONTEXT = 16 };

typedef enum check_verdict {
    CHECK_NOT_APPLICABLE, /* no pairs that could lie in another order: `why` says it */
    CHECK_UNDECIDED,      /* the figures are too near one another: `why` says how near */
    CHECK_AGREES,         /* trained as the file says */
    CHECK_DISAGREES
} check_verdict;

typedef struct explain_check {
    check_verdict verdict;
    char why[320];
    gyre_layout file; /* what the model's files say */
    double nats[2];   /* per token, of half and interleaved, over all windows */
    double window_nats[2][CHECK_WINDOWS];
    int64_t windows, context, tokens; /* of them, of each, of the text */
    int64_t half_wins;                /* windows */
    double p_value;                   /* that so one-sided a count comes about with nothing in it: the sign test's */
    json_t *card;                     /* of the run; NULL where there was nothing to check.  Owned */
    char card_text[RUN_CARD_LINE];
} explain_check;

/* Each of the windows is a trial, won by the layout whose perplexity is lower in it.  A layout is decided on where the sign
 * test gives chance at most 5% (all of eight) and the layouts differ by 1% at least, and where the better one knows
 * more of the text than how often its tokens come.  argc, argv: for the card. */
gyre_status explain_check_run(explain_check *out, const model_options *options, int argc, char **argv, const gyre_exec *exec,
                              gyre_error *err);
/* The verdict from the figures of the windows: out->window_nats, windows and file; blind: nats per token of who knows no
 * order. */
void explain_check_decide(explain_check *check, double unigram_entropy);
/* out = nats per token of a text for who knows how often each token comes and nothing else, what was not seen allowed for
 * (Chao and Shen 2003); at most log(vocab).  Errors: ENOMEM. */
gyre_status explain_check_unigram_entropy(const gyre_text *text, int64_t vocab, double *out, gyre_error *err);
void explain_check_view(const explain_terminal *page, const explain_check *check, const char *model);
json_t *explain_check_json(const explain_check *check, const char *text);
void explain_check_free(explain_check *check);

#endif
