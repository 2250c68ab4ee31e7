/*
 * A stand-in for libSystem of macOS. stub_script() names the file that says what it answers, which is read again at every
 * call, one fact to a line:
 *
 *   process 100 1 resident=4096 footprint=8192 ...    (process 100, child of 1; fields as in write_fields below)
 *   error proc_pid_rusage:100 1                       (fails for process 100 with this errno; without ":100" for all)
 *   timebase 125 3
 *   number hw.memsize 8 17179869184                   (a sysctl of eight bytes)
 *   text machdep.cpu.brand_string Apple_M1            (underscores become spaces)
 *   swap 3000 2000                                    (total and used bytes)
 *
 * What is reset is written to a file beside the script. The layout is that of Apple's bsd/sys/resource.h, field by field.
 * With OLD_SYSTEM the library lacks what systems before macOS 10.14 lacked; with NO_RUSAGE it has no proc_pid_rusage.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct info_v4 {
    uint8_t ri_uuid[16];
    uint64_t ri_user_time;
    uint64_t ri_system_time;
    uint64_t ri_pkg_idle_wkups;
    uint64_t ri_interrupt_wkups;
    uint64_t ri_pageins;
    uint64_t ri_wired_size;
    uint64_t ri_resident_size;
    uint64_t ri_phys_footprint;
    uint64_t ri_proc_start_abstime;
    uint64_t ri_proc_exit_abstime;
    uint64_t ri_child_user_time;
    uint64_t ri_child_system_time;
    uint64_t ri_child_pkg_idle_wkups;
    uint64_t ri_child_interrupt_wkups;
    uint64_t ri_child_pageins;
    uint64_t ri_child_elapsed_abstime;
    uint64_t ri_diskio_bytesread;
    uint64_t ri_diskio_byteswritten;
    uint64_t ri_cpu_time_qos_default;
    uint64_t ri_cpu_time_qos_maintenance;
    uint64_t ri_cpu_time_qos_background;
    uint64_t ri_cpu_time_qos_utility;
    uint64_t ri_cpu_time_qos_legacy;
    uint64_t ri_cpu_time_qos_user_initiated;
    uint64_t ri_cpu_time_qos_user_interactive;
    uint64_t ri_billed_system_time;
    uint64_t ri_serviced_system_time;
    uint64_t ri_logical_writes;
    uint64_t ri_lifetime_max_phys_footprint;
    uint64_t ri_instructions;
    uint64_t ri_cycles;
    uint64_t ri_billed_energy;
    uint64_t ri_serviced_energy;
    uint64_t ri_interval_max_phys_footprint;
    uint64_t ri_runnable_time;
};

#define FIELD(name, member) {name, offsetof(struct info_v4, member)}
static const struct { const char *name; size_t offset; } fields[] = {
    FIELD("user", ri_user_time), FIELD("system", ri_system_time), FIELD("pageins", ri_pageins),
    FIELD("resident", ri_resident_size), FIELD("footprint", ri_phys_footprint), FIELD("start", ri_proc_start_abstime),
    FIELD("exit", ri_proc_exit_abstime), FIELD("child_user", ri_child_user_time),
    FIELD("child_system", ri_child_system_time), FIELD("child_pageins", ri_child_pageins),
    FIELD("child_elapsed", ri_child_elapsed_abstime), FIELD("written", ri_diskio_byteswritten),
    FIELD("lifetime", ri_lifetime_max_phys_footprint), FIELD("interval", ri_interval_max_phys_footprint),
    FIELD("last", ri_runnable_time),
};
#define FIELD_COUNT (sizeof fields / sizeof fields[0])

static char script[4096];

void stub_script(const char *path) { snprintf(script, sizeof script, "%s", path); }
size_t stub_size(void) { return sizeof(struct info_v4); }
size_t stub_offset(const char *name) {
    for (size_t i = 0; i < FIELD_COUNT; i++) if (!strcmp(fields[i].name, name)) return fields[i].offset;
    return (size_t)-1;
}

static FILE *opened(void) { return script[0] ? fopen(script, "r") : NULL; }

static int failing(const char *function, int pid) {
    char line[1024], name[128], wanted[128];
    int code, found = 0;
    FILE *file = opened();
    snprintf(wanted, sizeof wanted, "%s:%d", function, pid);
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "error %127s %d", name, &code) == 2 && (!strcmp(name, function) || !strcmp(name, wanted)))
            found = code;
    if (file) fclose(file);
    if (found) errno = found;
    return found;
}

static void write_fields(struct info_v4 *info, char *text) {
    memset(info, 0, sizeof *info);
    for (char *word = strtok(text, " \n"); word; word = strtok(NULL, " \n")) {
        char *value = strchr(word, '=');
        if (!value) continue;
        *value++ = 0;
        uint64_t number = strtoull(value, NULL, 10);
        size_t offset = stub_offset(word);
        if (offset != (size_t)-1) memcpy((char *)info + offset, &number, sizeof number);
    }
}

#ifndef NO_RUSAGE
int proc_pid_rusage(int pid, int flavor, void *buffer) {
    char line[1024];
    int number, parent, skipped;
    FILE *file;
    if (failing("proc_pid_rusage", pid)) return -1;
#ifdef OLD_SYSTEM
    if (flavor > 3) return errno = EINVAL, -1;
#endif
    if (flavor != 4) return errno = EINVAL, -1;
    file = opened();
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "process %d %d %n", &number, &parent, &skipped) == 2 && number == pid) {
            write_fields(buffer, line + skipped);
            fclose(file);
            return 0;
        }
    }
    if (file) fclose(file);
    errno = ESRCH;
    return -1;
}
#endif

#ifndef OLD_SYSTEM
int proc_reset_footprint_interval(int pid) {
    char path[4200];
    FILE *file;
    if (failing("proc_reset_footprint_interval", pid)) return -1;
    snprintf(path, sizeof path, "%s.resets", script);
    if ((file = fopen(path, "a"))) { fprintf(file, "%d\n", pid); fclose(file); }
    return 0;
}
#endif

/* Gives the number of bytes, and 0 for an error, which only errno tells from an empty list. */
int proc_listpids(uint32_t type, uint32_t typeinfo, void *buffer, int size) {
    char line[1024];
    int number, parent, count = 0;
    FILE *file;
    if (type != 6) return errno = EINVAL, 0;
    if (failing("proc_listpids", (int)typeinfo)) return 0;
    file = opened();
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "process %d %d", &number, &parent) == 2 && parent == (int)typeinfo &&
            (size_t)(count + 1) * sizeof(int) <= (size_t)size)
            ((int *)buffer)[count++] = number;
    if (file) fclose(file);
    return count * (int)sizeof(int);
}

int mach_timebase_info(uint32_t *base) {
    char line[1024];
    FILE *file = opened();
    base[0] = base[1] = 1;
    while (file && fgets(line, sizeof line, file)) sscanf(line, "timebase %u %u", &base[0], &base[1]);
    if (file) fclose(file);
    return failing("mach_timebase_info", 0) ? 5 : 0;
}

static int answer(void *old, size_t *length, const void *value, size_t size) {
    if (*length < size) return errno = ENOMEM, -1;
    memcpy(old, value, size);
    *length = size;
    return 0;
}

int sysctlbyname(const char *name, void *old, size_t *length, void *new_value, size_t new_size) {
    char line[1024], key[128], text[256] = "";
    unsigned width, size = 0;
    unsigned long long number = 0, total, used;
    struct { uint64_t total, available, used; uint32_t page_size, encrypted; } swap = {0};
    FILE *file = opened();
    (void)new_value, (void)new_size;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "number %127s %u %llu", key, &width, &number) == 3 && !strcmp(key, name)) { size = width; break; }
        if (sscanf(line, "text %127s %255s", key, text) == 2 && !strcmp(key, name)) { size = strlen(text) + 1; break; }
        if (sscanf(line, "swap %llu %llu", &total, &used) == 2 && !strcmp(name, "vm.swapusage")) {
            swap.total = total, swap.used = used, swap.available = total - used;
            fclose(file);
            return answer(old, length, &swap, sizeof swap);
        }
        text[0] = 0;
    }
    if (file) fclose(file);
    if (!size) return errno = ENOENT, -1;
    for (char *c = text; *c; c++) if (*c == '_') *c = ' ';
    return answer(old, length, text[0] ? (void *)text : (void *)&number, size);
}
