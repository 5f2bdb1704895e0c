/* JSON files read whole, by cJSON. Without it (HAVE_CJSON) nothing reads them. */
#ifndef POSEIDON_UTIL_JSON_READ_H
#define POSEIDON_UTIL_JSON_READ_H

struct cJSON;

/* The document of a file, for cJSON_Delete; NULL where it fails, with a message that begins with
 * the path and the line. */
int json_read_file(const char *path, struct cJSON **out);

#endif
