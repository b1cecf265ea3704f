/* network_groups.h: the position encodings of a network's layers. */
#ifndef GYRE_MODEL_NETWORK_GROUPS_H
#define GYRE_MODEL_NETWORK_GROUPS_H
#include "model/network.h"

/* Creates an encoding for each layer group that network->reading describes, assigns the layers to the groups and chooses
 * the main group.  network->group and network->layer are allocated.  err must not be NULL.
 * Errors: EFORMAT, EUNSUPPORTED (a layer without a group), those of gyre_encoding_create. */
gyre_status gyre_network_create_groups(gyre_network *network, gyre_error *err);

enum { GYRE_MAX_BASE_GROUPS = 12 }; /* different layer_bases of a model made here: as many as layers of a config.json */
/* The same for the layers of a model made here.  encoding: of the main group, borrowed: that of config->position.
 * network->group has room for GYRE_MAX_BASE_GROUPS, and network->layer is filled in.  config: complete and checked.
 * Errors: those of gyre_encoding_create. */
gyre_status gyre_network_create_base_groups(gyre_network *network, const gyre_model_config *config, gyre_encoding *encoding,
                                            gyre_error *err);

#endif
