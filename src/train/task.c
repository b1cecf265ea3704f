/* task.c: sequences whose difficulty does not depend on position.  If a model fails at far positions, its position
 * encoding does. */
#include "gyre/gyre_research.h"
#include "gyre/gyre_train.h"
#include "util/random.h"

enum { MODULUS = 17, SEED_SYMBOLS = 4, RECENT_SYMBOLS = 3, COPY_SYMBOLS = 32 };

int64_t gyre_task_vocab(gyre_task task) {
    switch (task) {
    case GYRE_TASK_POSGEN_RECURSIVE:
    case GYRE_TASK_POSGEN_COT:
    case GYRE_TASK_POSGEN_SEMI:
        return MODULUS + 1;
    case GYRE_TASK_COPY:
        return COPY_SYMBOLS + 1;
    case GYRE_TASK_TEXT:
        break;
    }
    return 0;
}

/* out = index of the fourth symbol that x_l depends on. */
static int64_t far_symbol(gyre_task task, int64_t l) {
    if (task == GYRE_TASK_POSGEN_COT) return 0;
    return task == GYRE_TASK_POSGEN_SEMI ? (l - SEED_SYMBOLS) / 2 : l - SEED_SYMBOLS;
}

static void posgen(gyre_task task, int64_t length, uint64_t *state, int32_t *x) {
    for (int64_t l = 0; l < length && l < SEED_SYMBOLS; l++)
        x[l] = (int32_t)gyre_random_below(state, MODULUS);
    for (int64_t l = SEED_SYMBOLS; l < length; l++) {
        int32_t sum = x[far_symbol(task, l)];
        for (int i = 1; i <= RECENT_SYMBOLS; i++)
            sum += x[l - i];
        x[l] = sum % MODULUS;
    }
}

void gyre_task_sequence(gyre_task task, int64_t length, int64_t distance, uint64_t *state, int32_t *out, float *weights) {
    const int64_t vocab = gyre_task_vocab(task);
    if (!vocab) return;
    const int copies = task == GYRE_TASK_COPY;
    out[0] = (int32_t)vocab - 1;
    if (!copies) posgen(task, length, state, out + 1);
    for (int64_t i = 1; copies && i <= length; i++)
        out[i] = i < distance ? (int32_t)gyre_random_below(state, COPY_SYMBOLS) : out[i - distance];
    /* The first copied token, the start symbol, cannot be predicted: nothing before it says that a copy begins. */
    for (int64_t i = 0; weights && i <= length; i++)
        weights[i] = copies ? i > distance : i > SEED_SYMBOLS;
}
