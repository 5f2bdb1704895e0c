/* Checks files that a command will write, before the work: existing files need --force, and inputs
 * are never replaced. Not collective. */
#ifndef POSEIDON_COMMANDS_OUTPUT_GUARD_H
#define POSEIDON_COMMANDS_OUTPUT_GUARD_H

#include <stdbool.h>

/* Fails before the work if its output `path` could not be written afterwards: it is a folder, a
 * device or an input, it exists without `force`, or its folder is not writable. An empty file may
 * be replaced. Inputs may be comma lists, or NULL. */
int output_check(const char *path, bool force, int ninputs, const char *const *inputs);

/* Checks several outputs, which may be NULL, like output_check; no two may be the same file. */
int output_check_all(int noutputs, const char *const *outputs, bool force, int ninputs,
                     const char *const *inputs);

/* Fails unless the name ends in one of `ends`, closed by NULL: a name must fit the file's
 * format. */
int output_check_ending(const char *path, const char *const *ends);

/* Fails if the folder of `path` is not writable. */
int output_check_folder(const char *path);

#endif
