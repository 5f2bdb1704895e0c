/* Files that a command writes, looked at before the work: none is replaced that the user did not
 * offer, and none that the command reads. Not collective. */
#ifndef POSEIDON_COMMANDS_OUTPUT_GUARD_H
#define POSEIDON_COMMANDS_OUTPUT_GUARD_H

#include <stdbool.h>

/* Fails early, before minutes of work, where the file `path` could not be written in the end: it is
 * a folder or a device, one of the inputs, there already without `force`, or in a folder that is
 * not writable. A file without content may be replaced. Inputs may be comma lists; those that are
 * NULL are passed over. */
int output_check(const char *path, bool force, int ninputs, const char *const *inputs);

/* The same for several outputs, none of which may be another's file. Outputs that are NULL are
 * passed over. */
int output_check_all(int noutputs, const char *const *outputs, bool force, int ninputs,
                     const char *const *inputs);

/* Fails unless the name ends in one of `ends`, NULL behind the last: no file is to have a form that
 * its name belies. */
int output_check_ending(const char *path, const char *const *ends);

/* Fails where the folder that `path` is in cannot be written to. */
int output_check_folder(const char *path);

#endif
