/* Quantities with units, as people write them on a command line and read them in a report. Not
 * collective. */
#ifndef POSEIDON_UTIL_UNITS_H
#define POSEIDON_UTIL_UNITS_H

/* ---- parsing, for `parse` of an option; name: the option in messages; target: a double ---- */

/* Parses a rate above 0 into bytes per second. "10Gb", "10Gbit/s", "200Mbps" are bits, "1.25GB",
 * "800MB/s" bytes; k, M, G, T are powers of 1,000. */
int units_parse_rate(const char *name, const char *text, void *target);

/* Parses a whole number from `least` to `most`. */
int units_parse_whole(const char *name, const char *text, long long least, long long most,
                      long long *out);

/* Parses a size, "512k", "2m" or "1GB", into bytes: 0, or 1 and more; k, M and G are powers of
 * 1,024. target: a size_t. */
int units_parse_bytes(const char *name, const char *text, void *target);

/* Parses a time, "30us", "1.5ms", "250ns" or "0s", into seconds, 0 or more. */
int units_parse_time(const char *name, const char *text, void *target);

/* Parses a duration above 0 into seconds: "90s", "30min", "4h", "2d", or a scheduler's clock,
 * "1:30:00" or "1-12:00:00". */
int units_parse_duration(const char *name, const char *text, void *target);

/* Parses a duration like units_parse_duration, or "none" into 0. */
int units_parse_pause(const char *name, const char *text, void *target);

/* Parses a plain number above 0, up to 1e12. */
int units_parse_positive(const char *name, const char *text, void *target);

/* Parses "1,2,4": at most `room` whole numbers from 1 to `most`, each once. Returns their number,
 * or -1 with a message. */
int units_parse_counts(const char *name, const char *text, int most, int room, int *counts);

/* ---- printing: three digits, thousands ("1.23 MB", "12.3 ms", "147 kB") ---- */

/* A printed quantity. units_bytes(n).text lasts as long as the expression that it stands in. */
struct units_text {
    char text[48];
};

/* Prints "1 rank", "3 ranks", "0 classes", "2 axes", "4 batches". thing: the singular. */
struct units_text units_count(long long count, const char *thing);

struct units_text units_bytes(double bytes);
struct units_text units_bits(double bytes_per_second); /* "7.4 Gbit/s" */
struct units_text units_rate(double bytes_per_second);
struct units_text units_seconds(double seconds);

#endif
