/* mixture_config.h: the experts that a config.json or a GGUF describes. */
#ifndef GYRE_MODEL_MIXTURE_CONFIG_H
#define GYRE_MODEL_MIXTURE_CONFIG_H
#include "model/architecture/architecture.h"
#include "reading/gguf/gguf_source.h"
#include "reading/json_scope.h"

/* Fills in a->mixture of a family with experts.  Failures are those of the scope. */
void gyre_mixture_from_config(const gyre_scope *s, gyre_architecture *a);
/* The same from the keys and tensors of a GGUF; without expert_count nothing.  Failures are those of the build. */
void gyre_mixture_from_gguf(const gyre_gguf_source *s, gyre_architecture *a);

#endif
