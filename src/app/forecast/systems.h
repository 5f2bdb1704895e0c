/* Other systems that papers compare with, reduced to what decides their speed of communication.
 * Each is this program's plan and messages under other rules, or a ring. Project Adam's strategy
 * and 1-bit quantisation are schemes of training itself ("adam", "onebit"). */
#ifndef POSEIDON_FORECAST_SYSTEMS_H
#define POSEIDON_FORECAST_SYSTEMS_H

#include "simulate/simulate.h"

struct system {
    const char *name, *help; /* help: one line, without a full stop */
    const char *alias;       /* NULL: the system has one name */
    struct comm comm; /* COMM_SCHEME without scheme: the registry's first, the parameter server */
    enum cost_overlap overlap;
    size_t chunk_bytes; /* size of a chunk; no system merges layers */
    bool in_turn;       /* see struct plan_options */
    struct simulate_manner manner;
};

/* Parses a system's name, or what comm_parse takes: then *out becomes NULL. */
int systems_parse(const struct scheme *const *registry, const char *option, const char *text,
                  struct comm *comm, const struct system **out);

/* Appends a line per system to what comm_help wrote. */
void systems_help(int indent, char out[COMM_HELP_BYTES]);

#endif
