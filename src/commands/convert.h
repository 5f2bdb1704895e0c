/* `poseidon convert`: published data sets into the HDF5 files that Data layers read. */
#ifndef POSEIDON_COMMANDS_CONVERT_H
#define POSEIDON_COMMANDS_CONVERT_H

/* argv[0] is "convert". Returns the exit status: 0 done, 1 failed, 2 wrong usage. Errors go to
 * standard error as `poseidon convert: message`; nothing half-written is left. */
int command_convert(int argc, char **argv);

#endif
