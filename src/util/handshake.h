/* Whether all ranks run the same program: the first thing after MPI_Init. A rank whose program is
 * older or was built otherwise would send what nobody waits for, and all would wait for ever.
 *
 * Every rank sends rank 0 a record of fixed size and layout, point to point and never by a
 * collective call, so that no other program takes it for something of its own; rank 0 answers with
 * what it thinks of them. A rank that sends no record in time runs a program from before the
 * handshake, or another one. */
#ifndef POSEIDON_UTIL_HANDSHAKE_H
#define POSEIDON_UTIL_HANDSHAKE_H

#include <mpi.h>

#include "util/build_info.h"

enum handshake {
    HANDSHAKE_SAME,    /* all ranks run the same program */
    HANDSHAKE_REFUSED, /* they do not, and all know: each may end in an orderly way */
    HANDSHAKE_UNHEARD  /* some say nothing: this rank has the message and must end all by
                          MPI_Abort */
};

/* Seconds that a rank has, after MPI_Init has brought all together, to show its record. */
enum { HANDSHAKE_SECONDS = 30 };

/* command: what this rank was started to do, "train"; all must do the same. HANDSHAKE_REFUSED: rank
 * 0 has the message. HANDSHAKE_SAME and the others of a refusal leave this thread's as it was.
 * Collective; before any other message on `world`. */
enum handshake handshake(MPI_Comm world, const struct build_info *build, const char *command);

#endif
