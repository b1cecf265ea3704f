/* bundled_models.h: the models that come with gyre, found from anywhere: of an installed command in share/gyre/models, as
 * seen from its own folder; of a command that was only built, in its sources, to which the build makes a link
 * beside it. */
#ifndef GYRE_TOOLS_BUNDLED_MODELS_H
#define GYRE_TOOLS_BUNDLED_MODELS_H
#include "gyre/gyre.h"

enum { BUNDLED_PATH = 4096 };

/* path = the folder of the bundled model `name`, whether or not it exists.  EINVAL: too long. */
gyre_status bundled_model_path(const char *name, char path[BUNDLED_PATH], gyre_error *err);
/* path = the page of gyre explore: of an installed command share/gyre/explorer.html, of a command that was only built
 * build/explorer/explorer.html of its sources; whether or not it exists.  GYRE_EXPLORER in the environment names another.
 * EINVAL: too long. */
gyre_status bundled_explorer_path(char path[BUNDLED_PATH], gyre_error *err);
/* out = `model`, if there is such a file or folder or no bundled model of that name; else the bundled model's folder.
 * "models/rope" names the same one as "rope", as in the examples.  The result is valid to the end of the program; at most
 * eight different models are looked up. */
const char *bundled_model_find(const char *model);

#endif
