/* network_weights.h: finds every tensor of a decoder in its files by name, checks its shape, and maps or loads it. */
#ifndef GYRE_MODEL_NETWORK_WEIGHTS_H
#define GYRE_MODEL_NETWORK_WEIGHTS_H
#include "model/network.h"

/* Fills in the weights of a network whose arch, store, layer array and groups are set.  Matrices stay in the mapped
 * files unless they are misaligned or transposed.  Vectors become floats.  err must not be NULL.
 * Errors: EFORMAT (a tensor that is missing, unknown, of another shape or not finite), EUNSUPPORTED, ENOMEM. */
gyre_status gyre_network_load_weights(gyre_network *network, gyre_error *err);
/* out = 1 for a buffer that a file may hold though the config implies it, such as a mask: it is not read. */
int gyre_network_ignores(const char *name);
enum { GYRE_TENSOR_NAME = 160 };
/* out = a name such as "model.layers.3.self_attn.q_proj" ".weight".  Returns 0 if the family has no such role. */
int gyre_network_tensor_name(const gyre_network *network, gyre_tensor_role role, int64_t layer, const char *suffix,
                             char out[GYRE_TENSOR_NAME]);
/* out = index of the tensor in the store; -1 = there is none of that name. */
int64_t gyre_network_find_tensor(const gyre_tensor_store *store, const char *name);

/* What is wrong with tensors, in words. */
typedef struct gyre_fault_list {
    char **texts; /* [count] owned */
    int64_t count, most, in_all;
    int64_t vocab;  /* rows of the embedding; 0 = not found */
    int64_t unread; /* tensors of types that Gyre does not read */
    gyre_error unread_why;
    int64_t aside; /* tensors beside a language model */
    char aside_first[GYRE_TENSOR_NAME];
} gyre_fault_list;
/* Keeps a copy while there are less than `most`.  Errors: ENOMEM. */
gyre_status gyre_fault_list_add(gyre_fault_list *list, const char *text, gyre_error *err);
/* Counts a tensor of type GYRE_STORED_OTHER and keeps the text of the first. */
void gyre_fault_list_add_unread(gyre_fault_list *list, const gyre_file_tensor *tensor);
/* Counts a tensor beside the language model and keeps the name of the first. */
void gyre_fault_list_add_aside(gyre_fault_list *list, const gyre_file_tensor *tensor);
/* gyre_network_load_weights that continues after a fault and checks no number; the network then has no weights and may
 * be freed alone.  Its groups may be missing: then the table of positions is not checked.  Errors: ENOMEM. */
gyre_status gyre_network_list_faults(gyre_network *network, gyre_fault_list *faults, gyre_error *err);

/* Fails with the first tensor of the model at `path` that its config does not ask for, that is missing or of another shape.
 * Looks at no number but the scales of packed experts.  A config that Gyre does not run is not an error.
 * err must not be NULL.
 * Errors: EFORMAT; EIO; ENOMEM; EUNSUPPORTED. */
gyre_status gyre_weight_shapes_check(const char *path, gyre_error *err);

#endif
