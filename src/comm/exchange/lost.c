/* Ends a process that cannot go on without a lost rank. The disk may not answer, and the launcher
 * may be out of reach, so an alarm limits every step. */
#include "exchange/lost.h"

#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { LAST_BREATH_SECONDS = 30 };

static void end_process(int unused)
{
    (void)unused;
    _exit(EXCHANGE_LOST);
}

void exchange_lost(const struct exchange_end *end, const char *text)
{
    fprintf(stderr, "%s: lost: %s. %s ends with status %d%s\n", end->program, text, end->what,
            EXCHANGE_LOST, end->advice);
    fflush(stderr);
    (void)signal(SIGALRM, end_process);
    alarm((unsigned)end->save_seconds + LAST_BREATH_SECONDS);
    if (end->save)
        end->save(end->context);
    alarm(LAST_BREATH_SECONDS);
    MPI_Abort(MPI_COMM_WORLD, EXCHANGE_LOST);
    _exit(EXCHANGE_LOST);
}
