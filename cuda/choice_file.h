/* Choices that the engine makes by measuring, kept in a file for the next run: one line per choice,
 * "key choice", where the key holds all that the candidates depend on (device, library, shape).
 *
 * The file is `convolutions`, in the folder POSEIDON_CACHE, else in
 * $XDG_CACHE_HOME/poseidon, else in ~/.cache/poseidon. Lines are only ever added, whole, so
 * processes that measure at the same time do each other no harm; of several lines of one key the
 * last one holds. Without a place for the file, choices are kept for this run only. One thread; not
 * collective. */
#ifndef POSEIDON_CUDA_CHOICE_FILE_H
#define POSEIDON_CUDA_CHOICE_FILE_H

enum { CHOICES_KEY_BYTES = 320 };

struct choices;

/* Reads the file, if there is one. Fails for want of memory alone. */
int choices_open(struct choices **out);
void choices_close(struct choices *choices); /* NULL is fine */

/* The choice, a number >= 0, or -1 where there is none. */
int choices_find(const struct choices *choices, const char *key);

/* Keeps a choice, here and in the file. A file that cannot be written is measured for again: no
 * failure. Keys are cut to CHOICES_KEY_BYTES; blanks in them become '_'. */
int choices_note(struct choices *choices, const char *key, int choice);

#endif
