/* What other programs call it: pointers from their options and commands to ours. */
#ifndef POSEIDON_COMMANDS_POINTERS_H
#define POSEIDON_COMMANDS_POINTERS_H

#include <stdbool.h>
#include <stddef.h>

/* What to give in place of an option (its name with dashes) that `command` does not have, in out of
 * `room` bytes: an option of Caffe, PyTorch and others, and for train every field of the solver.
 * False: it is none of these. */
bool pointer_of_option(const char *command, const char *name, char *out, size_t room);

/* What to use in place of a command that there is not; NULL: not known. */
const char *pointer_of_command(const char *name);

#endif
