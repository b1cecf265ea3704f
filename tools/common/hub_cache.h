/* hub_cache.h: models in the local Hugging Face cache, found by name as huggingface_hub finds them without a network.
 * Nothing is ever downloaded. */
#ifndef GYRE_TOOLS_HUB_CACHE_H
#define GYRE_TOOLS_HUB_CACHE_H
#include "gyre/gyre.h"

enum { HUB_PATH = 4096 };

/* out = 1 if `model` has the form of a name of the hub: NAME or ORG/NAME, either followed by @REVISION or not. */
int hub_cache_is_name(const char *model);
/* out = 1 if a name of the hub has an organisation: it has a slash before any @. */
int hub_cache_has_organisation(const char *model);
/* path = the snapshot of the model, a folder; or the GGUF in it, if the snapshot has one GGUF and no config.json.  The
 * revision is a branch, a tag or a commit; without one it is main, or, where the cache has no such reference, the newest
 * snapshot, with a warning if there are several.
 * Errors: EINVAL (no name of the hub, too long); EIO (not in the cache, or without a model's files), with the folder that
 * was looked into and the command that downloads the model. */
gyre_status hub_cache_find(const char *model, char path[HUB_PATH], gyre_error *err);
/* out = 1 and repo = the folder of the model in the cache, with its refs, snapshots and blobs, if the environment names a
 * cache. */
int hub_cache_repo(const char *model, char repo[HUB_PATH]);

#endif
