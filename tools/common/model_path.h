/* model_path.h: what MODEL on a command line means, for every command. */
#ifndef GYRE_TOOLS_MODEL_PATH_H
#define GYRE_TOOLS_MODEL_PATH_H

/* What MODEL may be, for help texts. */
#define MODEL_PATH_HELP                                                                                                     \
    "the name of a model that comes with gyre, such as models/rope or rope; or ORG/NAME or ORG/NAME@REVISION, which is "    \
    "looked up in the local Hugging Face cache (HF_HOME). Nothing is downloaded."

/* out = the file or folder that `model` means: itself, if there is such a file or folder; else the model of that name that
 * comes with gyre; else its snapshot in the Hugging Face cache; else `model`.  Ends the program with CLI_FAILED if the form
 * is ORG/NAME and it is nowhere.  The result is valid to the end of the program; at most eight different models are looked
 * up.  Notes the model as read (tools/cli/cli_guard.h). */
const char *model_path_find(const char *model);
/* Reads the only argument of a command, a model (cli_command.argument).  at: a const char *. */
int model_path_argument(void *at, char *text);
/* model_path_find for a file of another model than the one that the command is about. */
const char *model_path_find_tokenizer(const char *model);
/* out = the name of the hub that was found at `path` by model_path_find, or NULL. */
const char *model_path_hub_name(const char *path);
/* out = what was given on the command line for `path`, a result of model_path_find. */
const char *model_path_as_given(const char *path);
/* Forgets what was found: a process may run another command.  Earlier results are no longer valid. */
void model_path_forget(void);
/* out = a result of model_path_find, or a name, as pages and figures show it: as given on the command line, or its last part
 * if that begins with /, since the folders of a machine say nothing to another reader (the last two of a config.json, whose
 * folder names the model). */
const char *model_path_shown(const char *path);

#endif
