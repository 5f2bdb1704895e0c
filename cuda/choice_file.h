/* Choices that the engine makes by measuring, kept in a file for the next run. Each line is "key
 * choice". The key holds all that the candidates depend on (device, library, shape).
 *
 * The file is `convolutions`, in the folder POSEIDON_CACHE, else in $XDG_CACHE_HOME/poseidon, else
 * in ~/.cache/poseidon. Each line is added by one write, so processes may measure at the same time;
 * the last line of a key holds. Without a place for the file, choices last for this run. One
 * thread; not collective. */
#ifndef POSEIDON_CUDA_CHOICE_FILE_H
#define POSEIDON_CUDA_CHOICE_FILE_H

enum { CHOICES_KEY_BYTES = 320 };

struct choices;

/* Reads the file, if it exists. Fails only where memory runs out. */
int choices_open(struct choices **out);
void choices_close(struct choices *choices); /* NULL does nothing */

/* Returns the choice, a number >= 0, or -1 where the key has none. */
int choices_find(const struct choices *choices, const char *key);

/* Keeps a choice in memory and in the file. Fails only where memory runs out: if the file cannot be
 * written, the next run measures again. Cuts keys to CHOICES_KEY_BYTES; their blanks become '_'. */
int choices_note(struct choices *choices, const char *key, int choice);

#endif
