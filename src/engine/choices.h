/* Choices that an engine makes by measuring, kept in a file for the next run: one line per choice,
 * "key choice", where the key holds all that the candidates depend on (device, library, shape).
 *
 * A key may have two parts, "MACHINE|WORK". What another rank chose for the work (choices_take)
 * then holds here, whatever the machine.
 *
 * The file is `convolutions`, whatever the choices are of, in the folder POSEIDON_CACHE, else in
 * $XDG_CACHE_HOME/poseidon, else in ~/.cache/poseidon. Lines are only ever added, whole, so
 * processes that measure at the same time do each other no harm; of several lines of one key the
 * last one holds. Without a place for the file, choices are kept for this run only. One thread; not
 * collective. */
#ifndef POSEIDON_ENGINE_CHOICES_H
#define POSEIDON_ENGINE_CHOICES_H

#include "util/strbuf.h"

#include <stdbool.h>

enum { CHOICES_KEY_BYTES = 320 };

struct choices;

/* Reads the file, if there is one. Fails for want of memory alone. */
int choices_open(struct choices **out);
void choices_close(struct choices *choices); /* NULL is fine */

/* The choice, a number >= 0, or -1 where there is none. */
int choices_find(const struct choices *choices, const char *key);

/* Keeps a choice: here, and where it was a sure one in the file. A file that cannot be written is
 * measured for again: no failure. Keys are cut to CHOICES_KEY_BYTES; blanks in them become '_'. */
int choices_note(struct choices *choices, const char *key, int choice, bool sure);

/* Appends all choices that were found or noted since it was opened, as lines of the file, without
 * the machine. */
void choices_tell(const struct choices *choices, struct strbuf *out);

/* Takes what another rank's choices_tell gave: it holds from now on, and is not written. */
int choices_take(struct choices *choices, const char *text);

#endif
