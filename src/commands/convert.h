/* The kinds of `poseidon convert`. */
#ifndef POSEIDON_COMMANDS_CONVERT_H
#define POSEIDON_COMMANDS_CONVERT_H

/* `poseidon convert images`; argv[0] is "images". */
int command_convert_images(int argc, char **argv);

/* `poseidon convert weights`; argv[0] is "weights". */
int command_convert_weights(int argc, char **argv);

#endif
