/* Numbers with units. A unit is never guessed: 10 could be bits or bytes, a factor of eight. */
#include "util/units.h"

#include "util/choice.h"
#include "util/error.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parses the number at the start of `text`; *rest: the text behind the number. Fails if there is no
 * number, or if it is negative or not finite. */
static int leading_number(const char *text, double *value, const char **rest)
{
    char *end;

    errno = 0;
    *value = strtod(text, &end);
    *rest = end;
    return error_status(end == text || errno == ERANGE || !isfinite(*value) || *value < 0);
}

static double thousands(const char **text)
{
    static const char letters[] = "kmgt";
    const char *found = **text ? strchr(letters, **text | 0x20) : NULL;
    double factor = 1;

    if (!found)
        return 1;
    for (const char *letter = letters; letter <= found; letter++)
        factor *= 1000;
    (*text)++;
    return factor;
}

int units_parse_rate(const char *name, const char *text, void *target)
{
    static const char *const endings[] = {"",    "/s",   "ps",    "it",     "it/s",
                                          "yte", "ytes", "yte/s", "ytes/s", NULL};
    double *out = target;
    const char *rest;
    double value;

    if (!leading_number(text, &value, &rest)) {
        value *= thousands(&rest);
        if ((*rest == 'b' || *rest == 'B') && choice_find(endings, rest + 1) >= 0 && value > 0) {
            *out = *rest == 'b' && strncmp(rest, "byte", 4) != 0 ? value / 8 : value;
            return 0;
        }
    }
    return error_set(
        "%s expects a rate with its unit, bits such as 10Gb or bytes such as 1.25GB, found '%s'",
        name, text);
}

int units_parse_whole(const char *name, const char *text, long long least, long long most,
                      long long *out)
{
    char *end;

    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end == text || *end || errno == ERANGE)
        return error_set("%s expects a whole number, found '%s'", name, text);
    if (*out < least || *out > most)
        return error_set("%s=%s is out of range: %lld to %lld", name, text, least, most);
    return 0;
}

int units_parse_bytes(const char *name, const char *text, void *target)
{
    static const char units[] = "kKmMgG";
    size_t *out = target;
    char *end;
    const char *unit;
    double factor, value;

    errno = 0;
    value = strtod(text, &end);
    unit = *end ? strchr(units, *end) : NULL;
    factor = unit ? ldexp(1, 10 + 10 * (int)((unit - units) / 2)) : 1;
    if (end != text && unit)
        end++;
    if (*end == 'b' || *end == 'B')
        end++;
    if (end == text || *end || errno == ERANGE ||
        !(value == 0 || (value * factor >= 1 && value * factor < 0x1p62)))
        return error_set("%s expects a size such as 512k or 2m, found '%s'", name, text);
    *out = (size_t)(value * factor);
    return 0;
}

struct unit {
    const char *name; /* NULL ends the list */
    double seconds;
};

/* Parses a number with one of the units; returns false for any other text. */
static bool read_with_unit(const char *text, const struct unit *unit, double *seconds)
{
    const char *rest;
    double value;

    if (leading_number(text, &value, &rest))
        return false;
    while (unit->name && strcmp(rest, unit->name))
        unit++;
    *seconds = value * unit->seconds;
    return unit->name != NULL;
}

int units_parse_time(const char *name, const char *text, void *target)
{
    static const struct unit units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"\xc2\xb5s", 1e-6},
                                        {"ms", 1e-3}, {"s", 1},     {NULL, 0}};

    return read_with_unit(text, units, target)
               ? 0
               : error_set("%s expects a time with its unit such as 30us or 0.1ms, found '%s'",
                           name, text);
}

/* Parses [D-]H:MM:SS; returns false for any other text. */
static bool read_clock(const char *text, double *seconds)
{
    int days = 0, hours, minutes, second, at = 0;

    if (strchr(text, '-') && (sscanf(text, "%5d-%n", &days, &at) != 1 || at == 0 || days < 0))
        return false;
    text += at;
    at = 0;
    if (sscanf(text, "%5d:%2d:%2d%n", &hours, &minutes, &second, &at) != 3 || text[at] ||
        hours < 0 || minutes < 0 || minutes > 59 || second < 0 || second > 59)
        return false;
    *seconds = ((days * 24.0 + hours) * 60 + minutes) * 60 + second;
    return true;
}

int units_parse_duration(const char *name, const char *text, void *target)
{
    static const struct unit units[] = {
        {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}, {NULL, 0}};
    double *out = target;

    if ((read_with_unit(text, units, out) || read_clock(text, out)) && *out > 0 && *out < 1e9)
        return 0;
    return error_set(
        "%s expects a duration with its unit such as 90s, 30min, 4h or 1:30:00, found '%s'", name,
        text);
}

int units_parse_pause(const char *name, const char *text, void *target)
{
    *(double *)target = 0;
    return strcmp(text, "none") ? units_parse_duration(name, text, target) : 0;
}

int units_parse_positive(const char *name, const char *text, void *target)
{
    double *out = target;
    const char *rest;

    if (!leading_number(text, out, &rest) && !*rest && *out > 0 && *out <= 1e12)
        return 0;
    return error_set("%s expects a number above 0, found '%s'", name, text);
}

int units_parse_counts(const char *name, const char *text, int most, int room, int *counts)
{
    const char *at = text;
    int n = 0;

    for (;;) {
        char *end;
        errno = 0;
        long value = strtol(at, &end, 10);
        if (end == at || (*end != ',' && *end != '\0') || errno == ERANGE || value < 1 ||
            value > most)
            return error_set("%s expects whole numbers from 1 to %d such as 1,2,4, found '%s'",
                             name, most, text);
        for (int i = 0; i < n; i++)
            if (counts[i] == (int)value)
                return error_set("%s=%s: %ld appears twice", name, text, value);
        if (n == room)
            return error_set("%s=%s: expected at most %d numbers", name, text, room);
        counts[n++] = (int)value;
        if (!*end)
            return n;
        at = end + 1;
    }
}

/* Prints three digits without superfluous zeros. scales: letters before the unit, each a thousand
 * times the one before; the first letter's unit is the value's. A blank prints no letter. */
static struct units_text print_scaled(double value, const char *scales, const char *unit)
{
    struct units_text out;

    for (; scales[1] && value >= 999.5; scales++)
        value /= 1000;
    snprintf(out.text, sizeof out.text,
             value >= 99.95 || value == 0 ? "%.0f %.*s%s" : "%.3g %.*s%s", value, *scales != ' ',
             scales, unit);
    return out;
}

struct units_text units_bytes(double bytes)
{
    return print_scaled(bytes, " kMGTP", "B");
}

struct units_text units_rate(double bytes_per_second)
{
    return print_scaled(bytes_per_second, " kMGTP", "B/s");
}

struct units_text units_bits(double bytes_per_second)
{
    return print_scaled(8 * bytes_per_second, " kMGTP", "bit/s");
}

struct units_text units_seconds(double seconds)
{
    return print_scaled(seconds * 1e9, "num ", "s");
}

struct units_text units_count(long long count, const char *thing)
{
    struct units_text out;
    int length = (int)strlen(thing);
    const char *end = thing + length, *plural = "";

    if (count != 1 && length > 2 && !strcmp(end - 2, "is"))
        length -= 2, plural = "es";
    else if (count != 1)
        plural = strchr("hsx", end[-1]) ? "es" : "s";
    snprintf(out.text, sizeof out.text, "%lld %.*s%s", count, length, thing, plural);
    return out;
}
