/* Parses and checks command lines by a table of options. */
#include "commands/options.h"

#include "commands/options_rows.h"
#include "engine/engine.h"
#include "util/agreement.h"
#include "util/choice.h"
#include "util/path.h"
#include "util/suggest.h"
#include "util/error.h"
#include "util/units.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* A command line being parsed. */
struct parsing {
    const struct command_line *line;
    int argc;
    char **argv;
    int at;                          /* index in argv */
    const char *given[OPTIONS_MOST]; /* per row: last value given; NULL: none */
};

/* Returns true if the option needs no value. */
static bool stands_alone(const struct option *o)
{
    return o->kind == OPTION_FLAG || o->kind == OPTION_WORD || o->kind == OPTION_NAME;
}

/* Returns true if the next word is the value of an option that needs none. */
static bool may_be_apart(const struct option *o, const char *word)
{
    return o->kind == OPTION_NAME ? word[0] != '-'
                                  : o->kind == OPTION_WORD && choice_find(o->words, word) > 1;
}

/* Stores --x, --nox, --no-x, --x=true, --x=false; for OPTION_WORD also --x=VALUE. text: NULL
 * without a value. */
static int store_alone(const struct option *o, const char *name, bool off, const char *text)
{
    bool is_false = off || (text && !strcmp(text, "false")),
         is_true = !text || !strcmp(text, "true");

    if (o->kind == OPTION_NAME) {
        *(const char **)o->target = off ? NULL : text ? text : "";
        return 0;
    }
    if (!is_false && !is_true)
        return o->kind == OPTION_WORD
                   ? option_store(o, name, text)
                   : error_set("%s is a flag: give it alone, or =true or =false", name);
    if (o->kind == OPTION_WORD)
        *(int *)o->target = !is_false;
    else
        *(bool *)o->target = !is_false;
    return 0;
}

/* Returns the row called `name`, or -1. *off: the name was "no" and a flag's name. */
static int find_row(const struct command_line *line, const char *name, bool *off)
{
    for (int k = 0; k < line->noptions; k++) {
        const struct option *o = &line->options[k];

        if (o->kind == OPTION_GROUP)
            continue;
        *off = stands_alone(o) && !strncmp(name, "no", 2) &&
               !strcmp(name + 2 + (name[2] == '-'), o->name);
        if (*off || !strcmp(name, o->name))
            return k;
    }
    return -1;
}

/* Returns the row's name, as "batch" or "tune=chunk". */
static struct units_text name_of(const struct option *o)
{
    struct units_text name;

    snprintf(name.text, sizeof name.text, "%s%s", o->flags & OPTION_TUNE ? "tune=" : "", o->name);
    return name;
}

/* Returns the nearest listed row, or with `tune` the nearest of OPTION_TUNE; NULL: none is near. */
static const struct option *nearest_row(const struct command_line *line, const char *name,
                                        unsigned tune)
{
    struct suggest suggest = suggest_start(name);
    bool off;

    for (const struct option *o = line->options; o < line->options + line->noptions; o++)
        if (o->kind != OPTION_GROUP && (o->flags & (tune | OPTION_CAFFE)) == tune)
            suggest_offer(&suggest, o->name);
    return suggest.nearest ? &line->options[find_row(line, suggest.nearest, &off)] : NULL;
}

static int unknown(const struct command_line *line, const char *name)
{
    const struct option *near = nearest_row(line, name, 0);
    char text[120];

    if (foreign_option_find(line->command, name, text, sizeof text))
        return error_set("unknown option --%s: %s", name, text);
    if (near)
        return error_set("unknown option --%s; did you mean --%s? (poseidon %s --help lists all)",
                         name, name_of(near).text, line->command);
    return error_set("unknown option --%s (poseidon %s --help lists all)", name, line->command);
}

/* Copies the option's name from a word, up to "=", with dashes for "_". -1: too long for any
 * row. */
static int copy_name(const char *word, char *out, size_t room)
{
    size_t length = strcspn(word, "=");

    if (length >= room)
        return -1;
    for (size_t c = 0; c < length; c++)
        out[c] = word[c] == '_' ? '-' : word[c];
    out[length] = '\0';
    return 0;
}

static int fill(struct parsing *p, int row, const char *name, bool off, const char *text)
{
    const struct option *o = &p->line->options[row];
    const char *before = p->given[row];

    if (before && text && strcmp(before, text) && o->kind != OPTION_LIST && option_warns())
        fprintf(stderr, "warning: %s=%s is overridden by the later %s=%s\n", name, before, name,
                text);
    p->given[row] = text && *text ? text : off ? NULL : "given";
    return stands_alone(o) ? store_alone(o, name, off, text) : option_store(o, name, text);
}

/* Parses the word after --tune: NAME=VALUE, or a flag's name. */
static int parse_tuning(struct parsing *p, const char *tune, const char *word)
{
    const char *equals = strchr(word, '=');
    char name[40] = "", whole[64];
    bool off = false;
    int row = copy_name(word, name, sizeof name) ? -1 : find_row(p->line, name, &off);
    const struct option *o = row < 0 ? NULL : &p->line->options[row];

    if (!o || !(o->flags & OPTION_TUNE)) {
        o = o && o->flags & OPTION_CAFFE ? NULL : o;
        const struct option *near = o ? NULL : nearest_row(p->line, name, OPTION_TUNE);

        return error_set("--%s=%s: %s%s%s%s ('poseidon help tuning' lists all)", tune, word,
                         o ? "expected the separate option --" : "unknown name",
                         o      ? o->name
                         : near ? "; did you mean "
                                : "",
                         near ? near->name : "", near ? "?" : "");
    }
    snprintf(whole, sizeof whole, "--%s=%s", tune, o->name);
    if (!equals && !stands_alone(o))
        return error_set("%s needs a value: %s=%s", whole, whole, o->value);
    return fill(p, row, whole, off, equals ? equals + 1 : NULL);
}

/* Parses the option at argv[at]; takes the next word as its value if it has none. */
static int parse_option(struct parsing *p)
{
    const char *word = p->argv[p->at] + (p->argv[p->at][1] == '-' ? 2 : 1);
    const char *equals = strchr(word, '='), *text = equals ? equals + 1 : NULL;
    char name[64];
    bool off;

    if (copy_name(word, name, sizeof name))
        return error_set("unknown option %s", p->argv[p->at]);
    int row = find_row(p->line, name, &off);
    if (row < 0 || (p->line->options[row].flags & (OPTION_TUNE | OPTION_CAFFE)) == OPTION_TUNE)
        return unknown(p->line, name);
    const struct option *o = &p->line->options[row];
    if (!text && !stands_alone(o)) {
        if (p->at + 1 >= p->argc)
            return error_set("--%s needs a value: --%s=%s", o->name, o->name, o->value);
        text = p->argv[++p->at];
    }
    if (!text && p->at + 1 < p->argc && may_be_apart(o, p->argv[p->at + 1]))
        text = p->argv[++p->at];
    if (o->kind == OPTION_TUNING)
        return parse_tuning(p, o->name, text);
    snprintf(name, sizeof name, "--%s", o->name);
    return fill(p, row, name, off, text);
}

/* Returns the option to suggest for a file name alone, "train solver.prototxt"; NULL: none. */
static const char *option_of_word(const struct command_line *line, const char *word)
{
    static const struct {
        const char *ending, *option;
    } files[] = {
        {".prototxt", "solver"},         {".prototxt", "model"},     {".solverstate", "snapshot"},
        {".solverstate.h5", "snapshot"}, {".caffemodel", "weights"}, {".caffemodel.h5", "weights"},
    };
    bool off;

    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (path_ends(word, files[i].ending) && find_row(line, files[i].option, &off) >= 0)
            return files[i].option;
    return NULL;
}

static int refuse_word(const struct command_line *line, const char *word)
{
    const char *option = option_of_word(line, word);

    return error_set("unexpected word '%s': %s%s%s%s%s (usage: poseidon %s %.*s)", word,
                     line->max_words == 0   ? "expected options only"
                     : line->max_words == 1 ? "expected one word besides options"
                                            : "too many words besides options",
                     option ? "; did you mean --" : "", option ? option : "", option ? "=" : "",
                     option ? word : "", line->command, (int)strcspn(line->synopsis, "\n"),
                     line->synopsis);
}

static void put_items(const struct option_list *list, const char *name, struct strbuf *alike)
{
    struct strbuf items = {.data = NULL};

    for (int i = 0; i < list->n; i++)
        strbuf_printf(&items, "%s%s", i ? ", " : "", list->item[i]);
    agreement_put(alike, name, "%s", list->n ? strbuf_text(&items) : "not given");
    alike->failed |= items.failed;
    strbuf_free(&items);
}

/* Returns true if the option has a value other than its default. */
static bool is_given(const struct parsing *p, int row)
{
    const char *given = p->given[row], *usual = p->line->options[row].default_words;

    return given && strcmp(given, "false") && !(usual && suggest_lists(usual, given));
}

/* Lists all options and their values for agree_alike, and the run's options in line->run. */
static void put_alike(const struct parsing *p, bool help)
{
    struct strbuf *alike = p->line->alike;
    enum option_run heading = OPTION_UNSAID;
    char name[64];

    agreement_put(alike, "--help", help ? "given" : "not given");
    for (int i = 0; i < p->line->noptions && !help; i++) {
        const struct option *o = &p->line->options[i];

        heading = o->kind == OPTION_GROUP ? o->run : heading;
        assert(!p->line->run || o->kind == OPTION_GROUP || o->run || heading);
        if (o->flags & OPTION_OWN || o->kind == OPTION_GROUP || o->kind == OPTION_TUNING)
            continue;
        snprintf(name, sizeof name, "--%s", name_of(o).text);
        if (o->kind == OPTION_LIST)
            put_items(o->target, name, alike);
        else
            agreement_put(alike, name, "%s", p->given[i] ? p->given[i] : "not given");
        if (o->run == OPTION_OF_RUN && is_given(p, i))
            agreement_put(p->line->run, name, "%s", o->kind == OPTION_FLAG ? "yes" : p->given[i]);
    }
}

static int parse_all(struct parsing *p, int *nwords)
{
    *nwords = 0;
    for (p->at = 1; p->at < p->argc; p->at++) {
        char *word = p->argv[p->at];

        if (!strcmp(word, "--help") || !strcmp(word, "-help") || !strcmp(word, "-h")) {
            options_print_help(p->line);
            return OPTIONS_HELPED;
        }
        if (word[0] == '-' && word[1] != '\0') {
            if (parse_option(p))
                return -1;
        } else if (*nwords >= p->line->max_words) {
            return refuse_word(p->line, word);
        } else {
            p->argv[++*nwords] = word;
        }
    }
    return 0;
}

/* Fails if a required option or word is missing. */
static int check_given(const struct parsing *p, int nwords)
{
    const struct command_line *line = p->line;

    for (int i = 0; i < line->noptions; i++)
        if (line->options[i].need && !p->given[i])
            return error_set("Need %s", line->options[i].need);
    if (nwords >= line->least_words)
        return 0;
    return line->least_words > 1 ? error_set("%s, found %d", line->expected, nwords)
                                 : error_set("%s", line->expected);
}

/* Fails if two given options exclude each other. */
static int check_pairs(const struct parsing *p)
{
    char pair[64];

    for (int i = 0; i < p->line->noptions; i++)
        for (int k = 0; k < p->line->noptions; k++) {
            const struct option *o = &p->line->options[i], *other = &p->line->options[k];

            if (!o->not_with || !is_given(p, i) || !is_given(p, k))
                continue;
            bool always = suggest_lists(o->not_with, other->name);
            snprintf(pair, sizeof pair, "%s=%s", other->name, p->given[k]);
            if (always || suggest_lists(o->not_with, pair))
                return error_set("--%s %s: not with --%s", name_of(o).text, o->why,
                                 always ? name_of(other).text : pair);
        }
    return 0;
}

/* Fails if an option was given that the engine does not use. */
static int check_engine(const struct parsing *p)
{
    const char *engine = *p->line->engine;
    bool blank = engine_is_blank(engine);

    if (blank && p->line->computing)
        return error_set("--engine=%s computes nothing: it is for 'poseidon train' alone", engine);
    for (int i = 0; i < p->line->noptions; i++) {
        const struct option *o = &p->line->options[i];

        if (!o->engines || suggest_lists(o->engines, engine) || !is_given(p, i))
            continue;
        return blank ? error_set("--engine=%s computes nothing and trains nothing: --%s does not "
                                 "apply",
                                 engine, name_of(o).text)
                     : error_set("--%s is for --engine=%s alone; the engine is %s", name_of(o).text,
                                 o->engines, engine);
    }
    return 0;
}

int options_parse(const struct command_line *own, int argc, char **argv, int *nwords)
{
    struct command_line line = *own;
    struct option_rows rows = {.n = 0};
    struct parsing parsing = {.line = &line, .argc = argc, .argv = argv};
    int words, status;

    if (line.net)
        options_add_model(&rows, line.net_rows, line.net);
    if (line.noptions)
        options_add(&rows, line.options, line.noptions);
    if (line.computing) {
        options_add_computing(&rows, line.computing);
        line.gpus = &line.computing->gpus;
        line.engine = &line.computing->engine;
    }
    line.options = rows.row;
    line.noptions = rows.n;
    status = parse_all(&parsing, &words);
    if (line.alike && status >= 0)
        put_alike(&parsing, status > 0);
    if (nwords)
        *nwords = words;
    if (status)
        return status;
    return error_status(check_given(&parsing, words) || check_pairs(&parsing) ||
                        (line.engine && (options_settle_engine(*line.gpus, line.engine) ||
                                         check_engine(&parsing))));
}
