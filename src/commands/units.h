/* Quantities with units, as people write them on a command line. `name` is the option, for
 * messages. */
#ifndef POSEIDON_COMMANDS_UNITS_H
#define POSEIDON_COMMANDS_UNITS_H

/* "10Gb", "10Gbit/s", "200Mbps" are bits, "1.25GB", "800MB/s" bytes; k, M, G, T are thousands.
 * Bytes per second, above 0. */
int units_parse_rate(const char *name, const char *text, double *bytes_per_second);

/* "30us", "1.5ms", "250ns", "0s". Seconds, 0 or more. */
int units_parse_time(const char *name, const char *text, double *seconds);

/* A plain number above 0. */
int units_parse_positive(const char *name, const char *text, double *value);

/* "1,2,4": at most `room` whole numbers from 1 to `most`, each once. Returns how many, -1 with a
 * message. */
int units_parse_counts(const char *name, const char *text, int most, int room, int *counts);

#endif
