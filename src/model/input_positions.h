/* input_positions.h: how what an encoding adds at the input meets the embedding, as gyre_model_config.position_form says. */
#ifndef GYRE_MODEL_INPUT_POSITIONS_H
#define GYRE_MODEL_INPUT_POSITIONS_H
#include "gyre/gyre_model.h"

enum { GYRE_MAX_FORMED_DIM = 4096 }; /* channels of a model with a form other than the sum, a multiple of 8 */

/* x = the embeddings x with their positions.  x: F32 [sequences, tokens, 1, model_dim], dense rows.  Errors: those of
 * gyre_add_input. */
gyre_status gyre_input_positions(const gyre_encoding *encoding, int64_t form, const gyre_tables *tables,
                                 const gyre_positions *positions, const gyre_view *x, gyre_error *err);
/* dx = the gradient to the embeddings, from that to what gyre_input_positions wrote. */
gyre_status gyre_input_positions_gradient(const gyre_encoding *encoding, int64_t form, const gyre_positions *positions,
                                          const gyre_view *dx, gyre_error *err);

#endif
