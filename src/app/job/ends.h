/* Settings that may end a run early, as its user gives them; src/app/watch acts on them. */
#ifndef POSEIDON_JOB_ENDS_H
#define POSEIDON_JOB_ENDS_H

enum signal_effect {
    SIGNAL_NOTHING,  /* "none": the signal is ignored */
    SIGNAL_SNAPSHOT, /* "snapshot": a snapshot after the running iteration */
    SIGNAL_STOP, /* "stop": a snapshot after the running iteration, then the end. For SIGINT without
                    a snapshot if the solver wants none after training */
};

enum signal_kind { SIGNAL_INT, SIGNAL_HUP, SIGNAL_TERM, SIGNAL_USR1, SIGNAL_XCPU, SIGNALS };

/* Time by which a run must be over. */
struct deadline {
    double end;         /* clock_seconds of the end; INFINITY: no deadline */
    double margin;      /* seconds before `end` at which only the process's end may remain */
    const char *whence; /* source, for messages: "--time-limit", "SLURM_JOB_END_TIME", ... */
};

#endif
