/* cli_guard.h: no file that a command writes is one that it reads, nor a file of the model's folder.  Files are compared by
 * device and inode, so links and other spellings of a name count too. */
#ifndef GYRE_TOOLS_CLI_GUARD_H
#define GYRE_TOOLS_CLI_GUARD_H

typedef enum cli_guard_kind {
    CLI_GUARD_FILE,   /* a result: text, a figure, a page, a journal */
    CLI_GUARD_MODEL,  /* a config or a GGUF */
    CLI_GUARD_FOLDER, /* a checkpoint's, which may be in the folder of another */
} cli_guard_kind;

/* Notes a file or folder that this run reads.  NULL does nothing.  path is borrowed until cli_guard_check. */
void cli_guard_read(const char *path);
/* The same for the model whose format --write keeps. */
void cli_guard_read_model(const char *path);
/* The same for a text: of a folder all files are read, with a config.json among them too. */
void cli_guard_read_text(const char *path);
/* Notes the value of an option that names a file or folder to write. */
void cli_guard_write(const char *option, const char *path, cli_guard_kind kind);
/* Usage error if a file to write is read by this run, is in a folder that it reads (or would, were it written), or is
 * another file to write; or if a folder to replace holds a file that is read; or if standard output or standard error is
 * such a file.  Forgets what was noted. */
void cli_guard_check(void);
/* Forgets what was noted: a process may run another command after one that ended before cli_guard_check. */
void cli_guard_forget(void);

#endif
