/* Checks that all ranks run the same program, first thing after MPI_Init. A rank with an older or
 * different program would send messages that nobody expects, and all would wait for ever.
 *
 * Every rank sends rank 0 a record of fixed size and layout, point to point: a different program
 * could take a collective call for one of its own. Rank 0 answers with a verdict. A rank that sends
 * no record in time runs another program, or a version from before the handshake. */
#ifndef POSEIDON_COMMANDS_HANDSHAKE_H
#define POSEIDON_COMMANDS_HANDSHAKE_H

#include <mpi.h>

#include "report/build_info.h"

enum handshake {
    HANDSHAKE_SAME,    /* all ranks run the same program */
    HANDSHAKE_REFUSED, /* the programs differ and all ranks know: each may exit in good order */
    HANDSHAKE_UNHEARD  /* some ranks are silent: this rank has the message and must end all by
                          MPI_Abort */
};

/* Seconds after MPI_Init within which a rank must show its record. */
enum { HANDSHAKE_SECONDS = 30 };

/* Compares programs and commands of all ranks. command: what this rank was started to do, "train".
 * On HANDSHAKE_REFUSED rank 0 alone has the message. On HANDSHAKE_SAME, and on other ranks after a
 * refusal, this thread's message is unchanged. Collective; before any other message on `world`. */
enum handshake handshake(MPI_Comm world, const struct build_info *build, const char *command);

#endif
