#include "util/json_read.h"

#include <string.h>

#include "util/error.h"
#include "util/file.h"
#include "util/strbuf.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_CJSON
#include <cJSON.h>

int json_read_file(const char *path, cJSON **out)
{
    struct strbuf text = {.length = 0};
    const char *end = NULL, *data;
    int line = 1, status = file_read(path, NULL, &text);

    *out = NULL;
    if (status)
        goto done;
    data = strbuf_text(&text);
    *out = cJSON_ParseWithLengthOpts(data, strlen(data) + 1, &end, 1);
    if (*out)
        goto done;
    for (const char *at = data; end && at < end; at++)
        line += *at == '\n';
    status = error_set("%s:%d: this is no JSON, or it is damaged from here on", path, line);
done:
    strbuf_free(&text);
    return status;
}

#else

int json_read_file(const char *path, struct cJSON **out)
{
    *out = NULL;
    return error_set("%s cannot be read: this poseidon was built without cJSON (Debian: "
                     "libcjson-dev, Spack: cjson)",
                     path);
}

#endif
