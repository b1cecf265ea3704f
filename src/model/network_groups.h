/* network_groups.h: the position encodings of a network's layers. */
#ifndef GYRE_MODEL_NETWORK_GROUPS_H
#define GYRE_MODEL_NETWORK_GROUPS_H
#include "model/network.h"

/* Creates an encoding for each layer group that network->reading describes, assigns the layers to the groups and chooses
 * the main group.  network->group and network->layer are allocated.  err must not be NULL.
 * Errors: EFORMAT, EUNSUPPORTED (a layer without a group), those of gyre_encoding_create. */
gyre_status gyre_network_create_groups(gyre_network *network, gyre_error *err);

#endif
