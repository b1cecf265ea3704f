/* extend_trainers.h: the settings of a trainer that stretch a model as a method does. */
#ifndef GYRE_TOOLS_EXTEND_TRAINERS_H
#define GYRE_TOOLS_EXTEND_TRAINERS_H
#include "tools/extend/extend.h"

/* The values of --write-for, in the order of their profiles, written by scripts/profile-lists. */
#define EXTEND_TRAINERS "megatron|torchtitan|axolotl|llama-factory|nanotron"
enum { EXTEND_FIRST_TRAINER = GYRE_PROFILE_MEGATRON };

/* *text = the settings, checked by reading them as the trainer does; the caller frees it.  Errors: EUNSUPPORTED: the trainer
 * cannot state the method for this model, and err says why in a sentence; those of extend_method_config; EIO, ENOMEM. */
gyre_status extend_trainer_settings(const extend_method *r, const extension *e, gyre_profile trainer, char **text,
                                    gyre_error *err);

#endif
