/* How other systems communicate, as far as it decides their speed: what papers compare with. Each
 * is this program's plan and messages under other rules, or a ring. Adam's strategy and 1-bit
 * quantisation are schemes of training itself ("adam", "onebit"). */
#ifndef POSEIDON_FORECAST_SYSTEMS_H
#define POSEIDON_FORECAST_SYSTEMS_H

#include "simulate/simulate.h"

struct system {
    const char *name, *help; /* help: one line, without a full stop */
    const char *other_name;  /* NULL: it has one alone */
    struct comm comm; /* COMM_SCHEME without a scheme: the registry's first, the parameter server */
    enum cost_overlap overlap;
    size_t chunk_bytes; /* none merges anything */
    bool in_turn;       /* as struct plan_options */
    struct simulate_manner manner;
};

/* What comm_parse takes, or a system's name: *out is NULL where it is none. */
int systems_parse(const struct scheme *const *registry, const char *option, const char *text,
                  struct comm *comm, const struct system **out);

/* Appends a line for each to what comm_help wrote. */
void systems_help(int indent, char out[COMM_HELP_BYTES]);

#endif
