/* explorer_model.h: the bundled model in the page: loss by position, a hidden key. */
#ifndef GYRE_EXPLORER_MODEL_H
#define GYRE_EXPLORER_MODEL_H
#include "explorer/wasm/explorer_numbers.h"

/* Opens the model of a folder, once.  out = GYRE_OK, or a status with explorer_failure set, as of all functions below. */
EXPLORER_EXPORT(explorer_model_open) int explorer_model_open(const char *folder);
/* out = a number of the open model: 0 parameters, 1 layers, 2 heads, 3 head_dim, 4 base, 5 trained length. */
EXPLORER_EXPORT(explorer_model_number) double explorer_model_number(int which);

/* The position of the first byte of every window that explorer_evaluate reads from now on; 0 at the start. */
EXPLORER_EXPORT(explorer_move) void explorer_move(double first);
/* out[0 .. 3] = nats per predicted byte, windows, scored predictions, perplexity, as `gyre eval --context` has them;
 * by_position[buckets] = nats by place in the window.  windows: at most; 0 = all. */
EXPLORER_EXPORT(explorer_evaluate)
int explorer_evaluate(const char *text, int bytes, const char *method, int context, int windows, int buckets,
                      double *by_position, double *out);
/* What a head of a layer does with the text, read as one window: weights[query][key] [bytes][bytes], 0 for keys after the
 * query; q, k [bytes][head_dim] before they rotate. */
EXPLORER_EXPORT(explorer_attention)
int explorer_attention(const char *text, int bytes, const char *method, int layer, int head, float *weights, float *q,
                       float *k);
/* out[0 .. 1] = trials and right answers, as `gyre eval --passkey` counts them. */
EXPLORER_EXPORT(explorer_passkey)
int explorer_passkey(const char *text, int bytes, const char *method, int context, int trials, double seed, double *out);
/* window[context] = text with one key hidden and asked for; out[0 .. 1] = where the first digit of the key and of its
 * question stand; answer[4] = the digits that the model gives, each after the right ones before; '?' for another byte. */
EXPLORER_EXPORT(explorer_hide_key)
int explorer_hide_key(const char *text, int bytes, const char *method, int context, double seed, unsigned char *window,
                      int *out, char *answer);
#endif
