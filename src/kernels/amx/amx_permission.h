/* amx_permission.h: whether this process may use AMX. */
#ifndef GYRE_KERNELS_AMX_PERMISSION_H
#define GYRE_KERNELS_AMX_PERMISSION_H

/* out = 1 if the processor has AMX with bf16, the system saves its registers, and gives this process the permission to use
 * them, for which this asks.  From then on the system keeps room for 8 KiB of registers on every signal stack. */
int gyre_amx_permitted(void);

#endif
