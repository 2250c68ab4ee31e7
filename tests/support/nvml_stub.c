/*
 * A stand-in for libnvidia-ml.so.1. What it answers stands in the file that NVML_STUB names, which is read again at
 * every call, one fact to a line, numbers in bytes:
 *
 *   driver 550.54.15
 *   cuda 12040
 *   device 0 Tesla_T4 GPU-0 total reserved used utilisation(percent, -1: not supported) mig(0, 1, -1: not supported)
 *   slice 0 2 A100_MIG_1g.5gb MIG-0-2 total reserved used          (slice number 2 of device 0)
 *   process 0 compute 101 bytes (-1: N/A)                          ("0.2" instead of 0: of the slice)
 *   link 0 1 20 0 5                          (topology level, status of peer reads, status of peers over NVLink)
 *   capability 0 75                                                (compute capability 7.5 of device 0)
 *   error nvmlDeviceGetMemoryInfo_v2 15                            (this function fails with this code)
 *   error nvmlDeviceGetMemoryInfo_v2:1 15                          (for device 1 only)
 *
 * Underscores in names become spaces. With OLD_DRIVER the library lacks what drivers before 510 lacked.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 32
typedef unsigned long long bytes_t;
typedef struct { char id[16], name[96], uuid[96]; bytes_t total, reserved, used; int utilisation, mig, capability; } card_t;
typedef struct { char id[16], kind[16]; unsigned pid; bytes_t used; } process_t;
typedef struct { char function[96]; int code; } error_t;
typedef struct { char one[16], other[16]; int level, read, nvlink; } link_t;
typedef struct { unsigned pid; bytes_t used; unsigned gpu_instance, compute_instance; } info_t;
typedef struct { char id[16]; } *handle_t;

static struct {
    char driver[80];
    int cuda, card_count, process_count, error_count, link_count;
    link_t links[MOST];
    card_t cards[MOST];
    process_t processes[MOST];
    error_t errors[MOST];
} now;
static struct { char id[16]; } handles[MOST];

static void read_script(void) {
    char line[512], id[16], name[96], uuid[96];
    FILE *file = getenv("NVML_STUB") ? fopen(getenv("NVML_STUB"), "r") : NULL;
    memset(&now, 0, sizeof now);
    while (file && fgets(line, sizeof line, file)) {
        card_t card = {0};
        process_t process = {0};
        error_t error = {0};
        link_t link = {0};
        long long used;
        int index, number;
        if (sscanf(line, "driver %79s", now.driver) == 1 || sscanf(line, "cuda %d", &now.cuda) == 1) continue;
        if (sscanf(line, "device %15s %95s %95s %llu %llu %llu %d %d", id, name, uuid, &card.total, &card.reserved,
                   &card.used, &card.utilisation, &card.mig) == 8) {
            strcpy(card.id, id);
        } else if (sscanf(line, "slice %d %d %95s %95s %llu %llu %llu", &index, &number, name, uuid, &card.total,
                          &card.reserved, &card.used) == 7) {
            snprintf(card.id, sizeof card.id, "%d.%d", index, number);
            card.utilisation = -1;
        } else if (sscanf(line, "process %15s %15s %u %lld", process.id, process.kind, &process.pid, &used) == 4) {
            process.used = (bytes_t)used;
            now.processes[now.process_count++] = process;
            continue;
        } else if (sscanf(line, "link %15s %15s %d %d %d", link.one, link.other, &link.level, &link.read, &link.nvlink) == 5) {
            now.links[now.link_count++] = link;
            continue;
        } else if (sscanf(line, "capability %15s %d", id, &number) == 2) {
            for (int i = 0; i < now.card_count; i++) if (!strcmp(now.cards[i].id, id)) now.cards[i].capability = number;
            continue;
        } else {
            if (sscanf(line, "error %95s %d", error.function, &error.code) == 2) now.errors[now.error_count++] = error;
            continue;
        }
        for (char *letter = name; *letter; letter++) if (*letter == '_') *letter = ' ';
        strcpy(card.name, name);
        strcpy(card.uuid, uuid);
        now.cards[now.card_count++] = card;
    }
    if (file) fclose(file);
}

static int failed(const char *function, const char *id) {
    char wanted[128];
    read_script();
    snprintf(wanted, sizeof wanted, "%s:%s", function, id ? id : "");
    for (int i = 0; i < now.error_count; i++)
        if (!strcmp(now.errors[i].function, function) || !strcmp(now.errors[i].function, wanted))
            return now.errors[i].code;
    return 0;
}

static card_t *find(const char *id) {
    for (int i = 0; i < now.card_count; i++) if (!strcmp(now.cards[i].id, id)) return &now.cards[i];
    return NULL;
}

static int open_handle(const char *id, void **handle) {
    int slot = 0;
    if (!find(id)) return 6;
    while (handles[slot].id[0] && strcmp(handles[slot].id, id)) slot++;
    strcpy(handles[slot].id, id);
    *handle = &handles[slot];
    return 0;
}

#define ENTER(id) int code = failed(__func__, id); if (code) return code
#define CARD(handle) ENTER((handle)->id); card_t *card = find((handle)->id); if (!card) return 15

int nvmlInitWithFlags(unsigned flags) { (void)flags; ENTER(NULL); return 0; }
int nvmlShutdown(void) {
    ENTER(NULL);
    if (getenv("NVML_STUB_SHUTDOWN")) { FILE *file = fopen(getenv("NVML_STUB_SHUTDOWN"), "a"); fputs("x", file); fclose(file); }
    return 0;
}
const char *nvmlErrorString(int code) { return code == 25 ? "Argument version mismatch" : "made up by the stub"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { ENTER(NULL); snprintf(text, size, "%s", now.driver); return 0; }
int nvmlSystemGetCudaDriverVersion(int *version) { ENTER(NULL); *version = now.cuda; return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) {
    ENTER(NULL);
    *count = 0;
    for (int i = 0; i < now.card_count; i++) *count += !strchr(now.cards[i].id, '.');
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    char id[16];
    snprintf(id, sizeof id, "%u", index);
    ENTER(id);
    return open_handle(id, handle);
}
int nvmlDeviceGetName(handle_t handle, char *text, unsigned size) { CARD(handle); snprintf(text, size, "%s", card->name); return 0; }
int nvmlDeviceGetUUID(handle_t handle, char *text, unsigned size) { CARD(handle); snprintf(text, size, "%s", card->uuid); return 0; }
int nvmlDeviceGetMemoryInfo(handle_t handle, bytes_t *memory) {
    CARD(handle);
    memory[0] = card->total;
    memory[2] = card->used + card->reserved;
    memory[1] = card->total - memory[2];
    return 0;
}
static int list(const char *id, const char *kind, unsigned *count, info_t *infos) {
    unsigned found = 0;
    for (int i = 0; i < now.process_count; i++) {
        process_t *process = &now.processes[i];
        if (strcmp(process->id, id) || strcmp(process->kind, kind)) continue;
        if (infos && found < *count) {
            info_t info = {process->pid, process->used, 0xFFFFFFFF, 0xFFFFFFFF};
            infos[found] = info;
        }
        found++;
    }
    int is_small = found > (infos ? *count : 0);
    *count = found;
    return is_small ? 7 : 0;
}
int nvmlDeviceGetComputeRunningProcesses_v2(handle_t handle, unsigned *count, info_t *infos) { ENTER(handle->id); return list(handle->id, "compute", count, infos); }
int nvmlDeviceGetGraphicsRunningProcesses_v2(handle_t handle, unsigned *count, info_t *infos) { ENTER(handle->id); return list(handle->id, "graphics", count, infos); }
int nvmlDeviceGetUtilizationRates(handle_t handle, unsigned *rates) {
    CARD(handle);
    if (card->utilisation < 0) return 3;
    rates[0] = (unsigned)card->utilisation;
    return 0;
}
int nvmlDeviceGetCudaComputeCapability(handle_t handle, int *major, int *minor) {
    CARD(handle);
    if (!card->capability) return 3;
    *major = card->capability / 10;
    *minor = card->capability % 10;
    return 0;
}
static link_t *between(handle_t one, handle_t other) {
    for (int i = 0; i < now.link_count; i++)
        if (!strcmp(now.links[i].one, one->id) && !strcmp(now.links[i].other, other->id)) return &now.links[i];
    return NULL;
}
int nvmlDeviceGetTopologyCommonAncestor(handle_t one, handle_t other, int *level) {
    CARD(one);
    link_t *link = between(one, other);
    if (!card || !link) return 3;
    *level = link->level;
    return 0;
}
int nvmlDeviceGetP2PStatus(handle_t one, handle_t other, int index, int *status) {
    CARD(one);
    link_t *link = between(one, other);
    if (!card || !link) return 3;
    *status = index == 2 ? link->nvlink : link->read;
    return 0;
}
#ifndef OLD_DRIVER
int nvmlSystemGetCudaDriverVersion_v2(int *version) { ENTER(NULL); *version = now.cuda; return 0; }
typedef struct { unsigned version; bytes_t total, reserved, free, used; } memory_v2_t;
int nvmlDeviceGetMemoryInfo_v2(handle_t handle, memory_v2_t *memory) {
    CARD(handle);
    if (memory->version != 0x02000028) return 25;
    memory->total = card->total;
    memory->reserved = card->reserved;
    memory->used = card->used;
    memory->free = card->total - card->reserved - card->used;
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(handle_t handle, unsigned *count, info_t *infos) { ENTER(handle->id); return list(handle->id, "compute", count, infos); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(handle_t handle, unsigned *count, info_t *infos) { ENTER(handle->id); return list(handle->id, "graphics", count, infos); }
int nvmlDeviceGetMigMode(handle_t handle, unsigned *current, unsigned *pending) {
    CARD(handle);
    if (card->mig < 0) return 3;
    *current = *pending = (unsigned)card->mig;
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(handle_t handle, unsigned *count) { CARD(handle); *count = card->mig == 1 ? 7 : 0; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(handle_t handle, unsigned number, void **slice) {
    char id[32];
    CARD(handle);
    snprintf(id, sizeof id, "%s.%u", handle->id, number);
    return open_handle(id, slice);
}
#endif
