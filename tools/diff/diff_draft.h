/* diff_draft.h: gyre diff --draft: whether a draft of speculative decoding rotates as its target needs it to.
 *
 * What must agree depends on what the two share (vLLM and SGLang, September 2026):
 *   cache   The draft has no keys and reads those of the target (Gemma 4's assistant).  Its queries are scored
 *           against keys that the target rotated: channels, layout, frequencies, axes and attention factor are the target's.
 *   head    EAGLE, MTP, DFlash, DSpark: the draft reads hidden states of the target at the target's positions, with its own
 *           keys and values.  Its rotation is the one it was trained with, which trainers take from the target's config;
 *           head size, layout and layers are its own.
 *   model   An independent small model: the two share tokens and positions, so only the length is common. */
#ifndef GYRE_TOOLS_DIFF_DRAFT_H
#define GYRE_TOOLS_DIFF_DRAFT_H
#include "tools/diff/diff_compare.h"

typedef enum diff_draft_kind {
    DIFF_DRAFT_NONE, /* no --draft */
    DIFF_DRAFT_AUTO,
    DIFF_DRAFT_HEAD,
    DIFF_DRAFT_CACHE,
    DIFF_DRAFT_MODEL
} diff_draft_kind;

typedef enum diff_draft_need {
    DIFF_NEED_MUST,    /* the result is wrong otherwise */
    DIFF_NEED_TRAINED, /* right as the draft was trained; trainers take it from the target */
    DIFF_NEED_OWN      /* nothing of it is shared */
} diff_draft_need;

enum { DIFF_DRAFT_CHECKS = 7, DIFF_DRAFT_GROUPS = 16, DIFF_DRAFT_TEXT = 160 };
typedef struct diff_draft_check {
    const char *name; /* "frequencies" */
    diff_draft_need need;
    int agrees;
    char draft[DIFF_DRAFT_TEXT], target[DIFF_DRAFT_TEXT];
    const char *note;       /* what follows from a difference; NULL = nothing */
    int64_t first_position; /* of frequencies: where an angle is 0.01 rad off; -1 = nowhere, or of another check */
} diff_draft_check;

/* A group of layers of the draft, and those of the target that it is compared with. */
typedef struct diff_draft_layers {
    const gyre_layer_reading *draft, *target; /* target NULL: it has none of this name, whose keys would be read */
    diff_draft_check checks[DIFF_DRAFT_CHECKS];
    int count, agrees;
} diff_draft_layers;

typedef struct diff_draft {
    diff_draft_kind kind;           /* never AUTO */
    char known_by[DIFF_DRAFT_TEXT]; /* why that kind: "--draft", "model_type gemma4_assistant" */
    diff_draft_layers layers[DIFF_DRAFT_GROUPS];
    int count, agrees;
    char verdict[1536];
} diff_draft;

/* Compares operand[0], the draft, with operand[1], its target; both are read.  length: --length; 0 = none.  Errors: those of
 * explain_stats_compute; EUNSUPPORTED (nothing of one of the two rotates). */
gyre_status diff_draft_compare(diff_draft *out, const diff_operand operand[2], diff_draft_kind kind, int64_t length,
                               gyre_error *err);
/* out = "head", "cache", "model". */
const char *diff_draft_kind_name(diff_draft_kind kind);

/* diff_draft_kind.c: the kind of a draft, from its config, its path and its target's. */
diff_draft_kind diff_draft_find_kind(const diff_operand operand[2], char known_by[DIFF_DRAFT_TEXT]);

/* diff_draft_view.c */
void diff_draft_view(const explain_terminal *page, const diff_draft *draft, const diff_operand operand[2]);
json_t *diff_draft_json(const diff_draft *draft);

#endif
