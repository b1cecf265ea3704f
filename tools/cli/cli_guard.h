/* cli_guard.h: no command replaces a file unasked, and none writes over what it reads, --force or not.  Files are compared
 * by device and inode, so links and other spellings of a name count too. */
#ifndef GYRE_TOOLS_CLI_GUARD_H
#define GYRE_TOOLS_CLI_GUARD_H

typedef enum cli_guard_kind {
    CLI_GUARD_FILE,    /* new, or replaced with --force */
    CLI_GUARD_CONFIG,  /* the same, or a folder that gets such a file: --write */
    CLI_GUARD_JOURNAL, /* continued by the run, which looks at its content */
    CLI_GUARD_FOLDER,  /* a checkpoint's, or that of a lab: the run looks at its content */
} cli_guard_kind;

/* Notes a file or folder that this run reads; of a folder, all files below it.  NULL does nothing.  path is borrowed until
 * cli_guard_check. */
void cli_guard_read(const char *path);
/* The same for a model: of its folder, or of the folder of a file that is named, the files that readers of models open. */
void cli_guard_read_model(const char *path);
/* The same for a tokenizer of another model, which does not say in which format --write writes. */
void cli_guard_read_tokenizer(const char *path);
/* Notes the value of an option that names a file or folder to write. */
void cli_guard_write(const char *option, const char *path, cli_guard_kind kind);
/* Usage error if a file to write exists and force is 0; if it, standard output or standard error is read by this run, or is
 * another file to write; if a folder to write holds a file that is read.  Forgets what was noted. */
void cli_guard_check(int force);
/* Forgets what was noted: a process may run another command after one that ended before cli_guard_check. */
void cli_guard_forget(void);

#endif
