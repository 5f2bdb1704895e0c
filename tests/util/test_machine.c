/* What a machine has for a process: limits of jobs in folders that stand for /proc and /sys, and of
 * this process itself; names of processors. */
#include "tests/files.h"
#include "util/machine.h"

#include <sys/resource.h>

#define NONE UINT64_MAX

/* A file of the machine in `folder`, with its folders. */
static void put(const char *name, const char *text)
{
    char command[600];
    const char *path = in_folder(name);

    snprintf(command, sizeof command, "mkdir -p '%.*s'", (int)(strrchr(path, '/') - path), path);
    ck_assert_int_eq(system(command), 0);
    write_bytes(path, text, strlen(text));
}

/* A control group of version 2: its limit, what it uses, files of that in memory. */
static void put_group(const char *group, const char *limit, const char *used, const char *files)
{
    char name[200], text[200];

    snprintf(name, sizeof name, "sys/fs/cgroup%s/memory.max", group);
    put(name, limit);
    snprintf(name, sizeof name, "sys/fs/cgroup%s/memory.current", group);
    put(name, used);
    snprintf(name, sizeof name, "sys/fs/cgroup%s/memory.stat", group);
    snprintf(text, sizeof text, "anon 77\nfile %s\ninactive_file %s\nactive_file 5\n", files,
             files);
    put(name, text);
}

START_TEST(no_group_is_no_limit)
{
    ck_assert_uint_eq(machine_limited_memory(folder, 1), NONE);
    put("proc/self/cgroup", "\nnonsense\n0:\n1:name=systemd:/\n0::/job\n");
    ck_assert_uint_eq(machine_limited_memory(folder, 1), NONE);
    put_group("/job", "max\n", "5000\n", "0");
    ck_assert_uint_eq(machine_limited_memory(folder, 1), NONE);
}
END_TEST

START_TEST(group_of_version_2_limits)
{
    put("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
    put_group("/slurm/job_7/step_0", "900000\n", "400000\n", "0");
    ck_assert_uint_eq(machine_limited_memory(folder, 1), 500005);
    ck_assert_uint_eq(machine_limited_memory(folder, 5), 100001);
}
END_TEST

START_TEST(parents_limit_their_children)
{
    put("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
    put_group("/slurm/job_7/step_0", "max\n", "1000\n", "0");
    put_group("/slurm/job_7", "700000\n", "100000\n", "20000");
    put_group("/slurm", "8000000\n", "100000\n", "0");
    ck_assert_uint_eq(machine_limited_memory(folder, 1), 620005);
    put_group("/slurm", "300000\n", "100000\n", "0");
    ck_assert_uint_eq(machine_limited_memory(folder, 1), 200005);
    put_group("", "150000\n", "100000\n", "0"); /* a container's */
    ck_assert_uint_eq(machine_limited_memory(folder, 1), 50005);
}
END_TEST

START_TEST(full_group_leaves_next_to_nothing)
{
    put("proc/self/cgroup", "0::/job\n");
    put_group("/job", "900000\n", "1000000\n", "0");
    ck_assert_uint_eq(machine_limited_memory(folder, 1), 1);
}
END_TEST

START_TEST(group_of_version_1_limits)
{
    put("proc/self/cgroup", "9:cpu,cpuacct:/other\n4:hugetlb,memory:/pbs:1/job\n0::/\n");
    put("sys/fs/cgroup/memory/pbs:1/memory.limit_in_bytes", "900000\n");
    put("sys/fs/cgroup/memory/pbs:1/memory.usage_in_bytes", "500000\n");
    put("sys/fs/cgroup/memory/pbs:1/memory.stat",
        "inactive_file 9\nactive_file 9\ntotal_inactive_file 100000\ntotal_active_file 200000\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "800000\n");
    put("sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1000\n");
    ck_assert_uint_eq(machine_limited_memory(folder, 1), 700000);
}
END_TEST

/* In a container a path may be of the host, and the mounted folder is the container's. */
START_TEST(path_that_is_not_here_leads_to_the_root)
{
    put("proc/self/cgroup", "4:memory:/docker/0123\n0::/../..\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "900000\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "300000\n");
    ck_assert_uint_eq(machine_limited_memory(folder, 1), 600000);
}
END_TEST

/* Each test is a process of its own. The limit of one process is not divided. */
START_TEST(ulimit_limits_this_process)
{
    const rlim_t bytes = (rlim_t)1 << 46; /* a sanitizer takes a third */
    struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};
    uint64_t left;

    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    left = machine_limited_memory(folder, 1);
    ck_assert(left < bytes && left > bytes / 2);
    ck_assert(machine_limited_memory(folder, 4) > bytes / 2);
}
END_TEST

START_TEST(processors_have_names)
{
    static const struct {
        const char *file, *words;
    } cases[] = {
        {"processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n"
         "model name\t: AMD EPYC 7B13\nstepping\t: 0\n\nprocessor\t: 1\nmodel\t\t: 9\n",
         "AMD EPYC 7B13 (25, 1)"},
        {"processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n",
         "processor of 0x41, part 0xd40"},
        {"processor\t: 0\nhart\t: 0\n", ""}};
    char words[MACHINE_PROCESSOR_WORDS];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        machine_processor(write_bytes(in_folder("cpuinfo"), cases[i].file, strlen(cases[i].file)),
                          words);
        ck_assert_str_eq(words, cases[i].words);
    }
    machine_processor("/no/such/file", words);
    ck_assert_str_eq(words, "");
}
END_TEST

SUITE("machine")
{
    TCase *tcase = suite_case(suite, "machine");

    tcase_add_checked_fixture(tcase, folder_make, folder_remove);
    tcase_add_test(tcase, no_group_is_no_limit);
    tcase_add_test(tcase, group_of_version_2_limits);
    tcase_add_test(tcase, parents_limit_their_children);
    tcase_add_test(tcase, full_group_leaves_next_to_nothing);
    tcase_add_test(tcase, group_of_version_1_limits);
    tcase_add_test(tcase, path_that_is_not_here_leads_to_the_root);
    tcase_add_test(tcase, ulimit_limits_this_process);
    tcase_add_test(tcase, processors_have_names);
}
