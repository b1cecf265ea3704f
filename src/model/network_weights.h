/* network_weights.h: finds every tensor of a decoder in its files by name, checks its shape, and maps or loads it. */
#ifndef GYRE_MODEL_NETWORK_WEIGHTS_H
#define GYRE_MODEL_NETWORK_WEIGHTS_H
#include "model/network.h"

/* Fills in the weights of a network whose arch, store, layer array and groups are set.  Matrices stay in the mapped
 * files unless they are misaligned or transposed.  Vectors become floats.  err must not be NULL.
 * Errors: EFORMAT (a tensor that is missing, unknown, of another shape or not finite), EUNSUPPORTED, ENOMEM. */
gyre_status gyre_network_load_weights(gyre_network *network, gyre_error *err);

#endif
