/* explain_check.h: gyre explain --check: finds the layout of pairs that a model's weights were trained with, by reading a
 * text under both layouts.
 *
 * A model whose file states the wrong layout still runs and writes sentences.  Only its perplexity shows the error. */
#ifndef GYRE_TOOLS_EXPLAIN_CHECK_H
#define GYRE_TOOLS_EXPLAIN_CHECK_H
#include "tools/common/run_card.h"
#include "tools/explain/explain_terminal.h"

enum { CHECK_WINDOWS = 8, CHECK_MAX_CONTEXT = 512, CHECK_MIN_CONTEXT = 16 };

typedef enum check_verdict {
    CHECK_NOT_APPLICABLE, /* no pairs that could be in another layout; see `why` */
    CHECK_UNDECIDED,      /* the perplexities are too close; see `why` */
    CHECK_AGREES,         /* trained with the layout that the file states */
    CHECK_DISAGREES
} check_verdict;

typedef struct explain_check {
    check_verdict verdict;
    char why[320];
    gyre_layout file; /* the layout that the model's files state */
    double nats[2];   /* per token over all windows: half, interleaved */
    double window_nats[2][CHECK_WINDOWS];
    int64_t windows, context, tokens; /* number of windows; tokens of each; tokens of the text */
    int64_t half_wins;                /* windows with a lower perplexity under half */
    double p_value;                   /* of the sign test: the probability of a count this one-sided by chance */
    json_t *card;                     /* of the run, owned; NULL if there was nothing to check */
    char card_text[RUN_CARD_LINE];
} explain_check;

/* Each window is won by the layout with the lower perplexity.  The check decides for a layout if the sign test gives a
 * p-value of at most 5% (all of eight windows), the perplexities differ by at least 1%, and the better one is below the
 * unigram perplexity of the text.  argc, argv: for the card.  Errors: those of opening the model and reading the text,
 * ENOMEM. */
gyre_status explain_check_run(explain_check *out, const model_options *options, int argc, char **argv, const gyre_exec *exec,
                              gyre_error *err);
/* Fills in the verdict from check->window_nats, windows and file.  unigram_entropy: in nats per token. */
void explain_check_decide(explain_check *check, double unigram_entropy);
/* *out = the unigram entropy of a text in nats per token, corrected for unseen tokens (Chao and Shen 2003); at most
 * log(vocab).  Errors: ENOMEM. */
gyre_status explain_check_unigram_entropy(const gyre_text *text, int64_t vocab, double *out, gyre_error *err);
void explain_check_view(const explain_terminal *page, const explain_check *check, const char *model);
json_t *explain_check_json(const explain_check *check, const char *text);
void explain_check_free(explain_check *check);

#endif
