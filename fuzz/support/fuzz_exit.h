/* fuzz_exit.h: the code of subcommands in a target: a call of exit ends the input, not the process. */
#ifndef GYRE_FUZZ_EXIT_H
#define GYRE_FUZZ_EXIT_H

/* Calls fn.  out = its result, or the status that the code beneath it gave to exit.  Nothing goes to standard output. */
int fuzz_until_exit(int (*fn)(void *arg), void *arg);
/* Runs a subcommand with these words, NULL at the end; words[0] is "gyre NAME".  out = the exit status. */
int fuzz_command(int (*command)(int argc, char **argv), const char *const *words);

#endif
