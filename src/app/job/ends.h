/* What may end a run early, as its user asks for it: src/app/watch acts on it. */
#ifndef POSEIDON_JOB_ENDS_H
#define POSEIDON_JOB_ENDS_H

enum signal_effect {
    SIGNAL_NOTHING,  /* "none": the signal is ignored */
    SIGNAL_SNAPSHOT, /* "snapshot": one after the running iteration, then on */
    SIGNAL_STOP, /* "stop": the same, and the end. What SIGINT asks leaves the snapshot out where
                    the solver wants none after training; what a scheduler asks does not */
};

enum signal_kind { SIGNAL_INT, SIGNAL_HUP, SIGNAL_TERM, SIGNAL_USR1, SIGNAL_XCPU, SIGNALS };

/* By when a run must be over. */
struct deadline {
    double end;         /* by clock_seconds; INFINITY: there is none */
    double margin;      /* seconds before it by which all must be over but the process's end */
    const char *whence; /* "--time-limit", "SLURM_JOB_END_TIME", ...: for messages */
};

#endif
