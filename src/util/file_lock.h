/* file_lock.h: a lock of a whole file or folder, which ends with the process. */
#ifndef GYRE_UTIL_FILE_LOCK_H
#define GYRE_UTIL_FILE_LOCK_H

/* out = 0 if the open file belongs to this descriptor alone now; EWOULDBLOCK if another has it; or the errno value of
 * asking, as where the file system has no locks. */
int gyre_lock_file(int fd);
/* The same, but tries for a second while another has it.  Linux may release the lock of a killed process some
 * milliseconds after its parent has learnt of its end, and a user who starts the command again at once should not get
 * the error that it is still running. */
int gyre_lock_file_patiently(int fd);
/* out = 1 if the open file or folder still has this name, 0 if not; -1 with errno if that cannot be seen. */
int gyre_has_name(int fd, const char *path);
/* out = 1 if another process had this number, and no process has it now. */
int gyre_process_is_gone(long pid);

#endif
