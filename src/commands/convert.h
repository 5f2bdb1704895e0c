/* What the kinds of `poseidon convert` and `poseidon mean` share. */
#ifndef POSEIDON_COMMANDS_CONVERT_H
#define POSEIDON_COMMANDS_CONVERT_H

#include <stdbool.h>

/* `poseidon convert images`; argv[0] is "images". */
int command_convert_images(int argc, char **argv);

/* Fails early, before minutes of reading, where the file `path` could not be written in the end: it
 * is a folder, one of the sources, there already without `force`, or in a folder that is not
 * writable. */
int output_check(const char *path, bool force, int nsources, char *const *sources);

/* Fails where the folder that `path` is in cannot be written to. */
int output_check_folder(const char *path);

#endif
